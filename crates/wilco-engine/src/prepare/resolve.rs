//! Asking the adapter for every value that would be used.

use std::sync::Arc;

use wilco_adapter::{Job, ResolveError, Undone};
use wilco_core::{Act, Handoff, Reason, Refusal, Resolved};

use crate::engine::Engine;

/// What the adapter resolved.
pub(super) struct Resolution {
    pub(super) resolved: Resolved,
    /// The adapter's name.
    pub(super) adapter: String,
    /// The execution slots it had to resolve.
    pub(super) exec: Vec<String>,
}

/// What the adapter will not do.
pub(super) struct Refused {
    pub(super) why: &'static str,
    pub(super) text: String,
}

/// Asks the adapter for every value that would be used.
pub(super) async fn resolve(
    engine: &Arc<Engine>,
    act: &Act,
    undone: Option<Undone>,
) -> Result<Result<Resolution, Refused>, Refusal> {
    let handoff = &act.handoff;
    let slot = match &undone {
        // What an adapter did, it takes back itself.
        Some(undone) => engine.slot_undoing(&handoff.profile, &undone.frozen.adapter),
        None => engine
            .slot_for(&handoff.profile, &handoff.ask)
            .map(|(slot, _)| slot),
    };
    let Some(slot) = slot else {
        let text = format!(
            "no adapter here serves ask {} of profile {}",
            handoff.ask, handoff.profile
        );
        return Ok(Err(Refused { why: "NOCAP", text }));
    };
    slot.is_up()?;
    let job = job(engine, act, undone);
    let _place = slot.place().await?;
    match slot.adapter.resolve(&job).await {
        Ok(resolved) => {
            slot.heard(None);
            Ok(Ok(Resolution {
                resolved,
                adapter: slot.description.name.clone(),
                exec: job.exec,
            }))
        }
        Err(ResolveError::Refused { why, text }) => Ok(Err(Refused { why, text })),
        Err(ResolveError::Passing(text)) => {
            slot.heard(Some(text.clone()));
            let text = format!(
                "{} did not answer: {text}; nothing was stored, try again",
                slot.description.name
            );
            Err(Refusal::new(Reason::AdapterDown, text).retry_after(5))
        }
    }
}

pub(crate) fn job(engine: &Engine, act: &Act, undo: Option<Undone>) -> Job {
    let handoff = &act.handoff;
    let parsed = rw1::parse(&engine.profiles, None, &handoff.line);
    let slots = parsed.message.map(|m| {
        m.slots
            .iter()
            .map(|(k, v)| (k.to_owned(), v.show().into_owned()))
            .collect()
    });
    Job {
        act_id: act.act_id,
        attempt: act.attempt + 1,
        profile: handoff.profile.clone(),
        ask: handoff.ask.clone(),
        item: handoff.item.clone(),
        slots: slots.unwrap_or_default(),
        exec: exec_slots(engine, handoff, undo.as_ref()),
        undo,
        now: engine.keeper.now(),
    }
}

fn exec_slots(engine: &Engine, handoff: &Handoff, undo: Option<&Undone>) -> Vec<String> {
    let profile = engine.profiles.get(&handoff.profile);
    let slots = profile.and_then(|p| {
        let of_reversed = undo.and_then(|undone| p.undo(&undone.ask));
        of_reversed.or_else(|| p.exec(&handoff.ask))
    });
    slots.map(<[String]>::to_vec).unwrap_or_default()
}
