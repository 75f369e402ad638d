//! What a handoff refers to in its thread: the act it takes the place of, the act an UNDO reverses.

use std::sync::Arc;

use wilco_adapter::Undone;
use wilco_core::prepare::{self as core, Reissue};
use wilco_core::{Act, Closed, Refusal, Stage};

use crate::engine::{Engine, store_refusal};

/// What a handoff refers to in its thread.
pub(super) enum Context {
    /// It may go on.
    Go(Box<Go>),
    /// It is answered with a UN: the code and the text.
    Refuse(&'static str, String),
}

/// What it needs of its thread.
#[derive(Default)]
pub(super) struct Go {
    /// The act it takes the place of.
    pub(super) supersedes: Option<Act>,
    /// What an UNDO reverses.
    pub(super) undone: Option<Undone>,
}

/// Looks up what its `re=` and, for an UNDO, its `ctx=` name.
pub(super) async fn context(engine: &Arc<Engine>, act: &Act) -> Result<Context, Refusal> {
    let parsed = rw1::parse(&engine.profiles, None, &act.handoff.line);
    let Some(message) = parsed.message else {
        return Ok(Context::Go(Box::default()));
    };
    let mut go = Go::default();
    // What `re=` names was dealt with when the handoff came; a next attempt does not do it again.
    if let Some(re) = message.re.filter(|_| act.attempt == 0) {
        let target = engine
            .keeper
            .act_by_message(&act.thread, re)
            .await
            .map_err(store_refusal)?;
        if let Some((target, body)) = target.filter(|(t, _)| t.act_id != act.act_id) {
            let target = engine.expire_if_due(target).await?;
            match core::reissue(&act.handoff, re, &target, body.as_deref()) {
                Reissue::Unrelated => {}
                Reissue::Supersedes => go.supersedes = Some(target),
                Reissue::Refuse(why, text) => return Ok(Context::Refuse(why, text)),
            }
        }
    }
    if act.handoff.ask == "UNDO" {
        let named: Vec<&str> = message.list("ctx").collect();
        let [dn] = named.as_slice() else {
            return Ok(Context::Refuse(
                "SCOPE",
                "ctx: an UNDO names exactly one DN, the act to reverse".into(),
            ));
        };
        match undone(engine, act, dn).await? {
            Ok(undone) => go.undone = Some(undone),
            Err((why, text)) => return Ok(Context::Refuse(why, text)),
        }
    }
    Ok(Context::Go(Box::new(go)))
}

/// The act an UNDO reverses, as it was executed.
async fn undone(
    engine: &Engine,
    act: &Act,
    dn: &str,
) -> Result<Result<Undone, (&'static str, String)>, Refusal> {
    let found = engine
        .keeper
        .act_by_message(&act.thread, dn)
        .await
        .map_err(store_refusal)?;
    let not_one = |text: String| Ok(Err(("SCOPE", text)));
    // What is another sender's is answered like what is not there.
    let theirs = |target: &Act| target.handoff.sender == act.handoff.sender;
    let Some((target, _)) = found.filter(|(target, _)| theirs(target)) else {
        return not_one(format!("ctx: {dn} is no line of yours in this thread"));
    };
    if target.closed().is_some_and(|c| c.erased.is_some()) {
        return not_one(format!(
            "ctx: what {dn} belongs to was erased; it cannot be reversed here any more"
        ));
    }
    let Stage::Done(Closed {
        line,
        line_id,
        closed_at,
        offer: Some(offer),
        receipt,
        ..
    }) = &target.stage
    else {
        return not_one(format!("ctx: {dn} is not the DN of an act that was done"));
    };
    if line_id != dn {
        return not_one(format!("ctx: {dn} is not a DN; the DN is {line_id}"));
    }
    if target.handoff.profile != act.handoff.profile {
        return not_one(format!(
            "p: the act to reverse is written in p={}",
            target.handoff.profile
        ));
    }
    let adapter = offer.frozen.adapter.as_str();
    let now = engine.keeper.now();
    if let Err((why, text)) = engine
        .contract_for(&target, &offer.frozen)
        .can_take_back(*closed_at, now)
    {
        return Ok(Err((why, format!("{dn} was done by {adapter}: {text}"))));
    }
    if engine.slot_undoing(&act.handoff.profile, adapter).is_none() {
        return Ok(Err((
            "NOCAP",
            format!("{dn} was done by {adapter}, which cannot take it back"),
        )));
    }
    let other = engine
        .keeper
        .act_undoing(target.act_id)
        .await
        .map_err(store_refusal)?;
    if let Some(other) = other.filter(|o| o.act_id != act.act_id) {
        return Ok(Err((
            "DUP",
            format!("{} reverses {dn} already", other.handoff.id),
        )));
    }
    let parsed = rw1::parse(&engine.profiles, None, line);
    let executed = parsed.message.map(|m| {
        m.slots
            .iter()
            .filter(|(k, _)| !matches!(*k, "p" | "out"))
            .map(|(k, v)| (k.to_owned(), v.show().into_owned()))
            .collect()
    });
    Ok(Ok(Undone {
        act_id: target.act_id,
        ask: target.handoff.ask.clone(),
        frozen: offer.frozen.clone(),
        executed: executed.unwrap_or_default(),
        receipt: receipt.clone(),
    }))
}
