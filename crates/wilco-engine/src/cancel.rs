//! Cancel: tells the truth, waiting for it where it is not known yet.

use std::sync::Arc;

use wilco_core::cancel::{self as core, Cancel, Effect};
use wilco_core::journal::{EntryKind, sha256_hex};
use wilco_core::write::Taken;
use wilco_core::{Act, Handoff, Reason, Refusal, State, Written};

use crate::api::{Caller, CancelRequest, Cancelled};
use crate::commit::until_closed;
use crate::engine::{Engine, store_refusal};
use crate::prepare::{blank, id_taken, thread_name};

const TRIES: u32 = 8;

/// How many cancels may wait for one act.
const MOST_WAITING: usize = 16;

pub(crate) async fn cancel(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: CancelRequest,
) -> Result<Cancelled, Refusal> {
    let cancel = core::intake(
        &engine.profiles,
        &request.cx,
        &|agent| caller.speaks_for(agent),
        &engine.config.agents,
    )?;
    let thread = thread_name(&request.thread, &cancel.from)?;
    let wait = engine.wait(request.wait);
    let mut long_ids = false;
    for _ in 0..TRIES {
        if let Some((act, body)) = engine
            .keeper
            .act_by_message(&thread, &cancel.id)
            .await
            .map_err(store_refusal)?
        {
            let same = match &body {
                Some(body) => *body == cancel.line,
                None => was_its_line(engine, &act, &cancel).await?,
            };
            if !same {
                return Err(id_taken("cx", &cancel.id, &cancel.id));
            }
            let act = until_closed(engine, act.act_id, wait).await?;
            return answer(engine, act, &cancel, true).await;
        }
        let existing = engine
            .keeper
            .act_by_handoff(&thread, &cancel.re)
            .await
            .map_err(store_refusal)?;
        wilco_failpoint::reach!("cancel.deciding");
        let written = match existing {
            None => Some(leave_tombstone(engine, caller, &thread, &cancel, long_ids).await?),
            Some(act) => {
                core::fits(&act, &cancel)?;
                let act = engine.expire_if_due(act).await?;
                let in_thread = stands_in_thread(engine, &act).await?;
                withdraw(engine, caller, act, &cancel, in_thread, long_ids).await?
            }
        };
        wilco_failpoint::reach!("cancel.written");
        match written {
            Some(Written::Advanced { acts, .. }) => {
                engine.release_if_abandoned(&acts);
                let Some(act) = acts.into_iter().next() else {
                    continue;
                };
                tracing::info!(act = %act.act_id, thread, state = act.state().as_str(), "cancel");
                let act = if act.state().is_final() {
                    act
                } else {
                    until_closed(engine, act.act_id, wait).await?
                };
                return answer(engine, act, &cancel, false).await;
            }
            // The cancel's own id: it arrived twice at once, or another line has it. The next round finds out.
            Some(Written::Taken(Taken::Message { message_id })) if message_id != cancel.id => long_ids = true,
            _ => {}
        }
    }
    Err(Refusal::new(Reason::Busy, "this act is being changed by others; ask again").retry_after(1))
}

async fn leave_tombstone(
    engine: &Arc<Engine>,
    caller: &Caller,
    thread: &str,
    cancel: &Cancel,
    long_ids: bool,
) -> Result<Written, Refusal> {
    let mut grave = blank(engine, caller, thread, &Handoff::default());
    grave.long_ids = long_ids;
    let (profiles, cancel, principal) = (engine.profiles.clone(), cancel.clone(), caller.name.clone());
    engine
        .write(move |now| {
            Ok(vec![core::tombstone(
                &profiles,
                grave.clone(),
                &cancel,
                &principal,
                now,
            )?])
        })
        .await
}

/// Whether the erased line with this cancel's id was this cancel.
async fn was_its_line(engine: &Engine, act: &Act, cancel: &Cancel) -> Result<bool, Refusal> {
    let rows = engine.keeper.journal(act.act_id).await.map_err(store_refusal)?;
    let sha256 = sha256_hex(cancel.line.as_bytes());
    Ok(rows
        .iter()
        .any(|r| r.message_id.as_deref() == Some(&cancel.id) && r.body_sha256 == sha256))
}

/// Whether the act's handoff is a line of its thread. One that did not validate is kept outside.
async fn stands_in_thread(engine: &Engine, act: &Act) -> Result<bool, Refusal> {
    if act.state() != State::Refused {
        return Ok(true);
    }
    let holder = engine
        .keeper
        .act_by_message(&act.thread, &act.handoff.id)
        .await
        .map_err(store_refusal)?;
    Ok(holder.is_some_and(|(holder, _)| holder.act_id == act.act_id))
}

/// Writes what the cancel does to its act. `None` if the act moved.
async fn withdraw(
    engine: &Arc<Engine>,
    caller: &Caller,
    mut act: Act,
    cancel: &Cancel,
    in_thread: bool,
    long_ids: bool,
) -> Result<Option<Written>, Refusal> {
    if act.waiting.len() >= MOST_WAITING {
        let text = format!("{MOST_WAITING} cancels wait for this act already; wait for the truth");
        return Err(Refusal::new(Reason::Limit, text));
    }
    act.long_ids |= long_ids;
    let (profiles, cancel, principal) = (engine.profiles.clone(), cancel.clone(), caller.name.clone());
    let written = engine
        .write(move |now| {
            let effect = core::decide(&profiles, &act, &cancel, in_thread, &principal, now)?;
            let (Effect::Write(change) | Effect::WriteAndWait(change)) = effect;
            Ok(vec![*change])
        })
        .await?;
    Ok(Some(written))
}

/// What cancel answers for an act as it stands.
async fn answer(engine: &Engine, act: Act, cancel: &Cancel, replayed: bool) -> Result<Cancelled, Refusal> {
    let mut notes = Vec::new();
    let reply = match act.state() {
        State::Done => {
            let back = wilco_core::prepare::way_back(&act);
            notes.push(format!("it was done before the cancel arrived; {back}"));
            act.closed().map(|c| c.line.clone()).unwrap_or_default()
        }
        State::Failed | State::Cancelled | State::Refused => acknowledgement(engine, &act, cancel).await?,
        _ => {
            notes.push("whether it was done is not known yet; the answer follows".to_owned());
            String::new()
        }
    };
    Ok(Cancelled {
        reply,
        act,
        notes,
        replayed,
    })
}

/// The AN that answered this cancel, from the journal.
async fn acknowledgement(engine: &Engine, act: &Act, cancel: &Cancel) -> Result<String, Refusal> {
    let rows = engine.keeper.journal(act.act_id).await.map_err(store_refusal)?;
    let answers = format!(" re={} ", cancel.id);
    let found = rows
        .into_iter()
        .rev()
        .filter(|r| matches!(r.kind, EntryKind::Line | EntryKind::Outside))
        .find_map(|r| {
            r.body
                .filter(|b| b.starts_with("RW1 AN ") && b.contains(&answers))
        });
    Ok(found
        .or_else(|| act.closed().map(|c| c.line.clone()))
        .unwrap_or_default())
}
