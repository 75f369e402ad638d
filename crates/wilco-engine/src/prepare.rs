//! Prepare: resolve, freeze, state. Nothing has happened when it returns.

use std::sync::Arc;

use wilco_adapter::{Job, ResolveError, Undone};
use wilco_core::act::{StoredProblem, TokenRecord};
use wilco_core::prepare::{self as core, Intake, Reissue, Standing};
use wilco_core::twin;
use wilco_core::write::Taken;
use wilco_core::{Act, Closed, Expect, Handoff, Reason, Refusal, Resolved, Stage, State, Timestamp, Written};

use crate::api::{Caller, PrepareRequest, Prepared};
use crate::engine::{Engine, store_refusal};

/// How often a prepare looks again after losing a race before it answers BUSY.
const TRIES: u32 = 8;

/// The most statements one handoff gets: beyond this something is wrong with its sender.
const MOST_ATTEMPTS: u32 = 200;

/// The longest thread name.
pub(crate) const MAX_THREAD_BYTES: usize = 200;

pub(crate) async fn prepare(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: PrepareRequest,
) -> Result<Prepared, Refusal> {
    let intake = core::intake(
        &engine.profiles,
        &request.ho,
        &|agent| caller.speaks_for(agent),
        &engine.config.agents,
    )?;
    let handoff = match &intake {
        Intake::Take(handoff) | Intake::Refuse { handoff, .. } => handoff.clone(),
    };
    let thread = thread_name(&request.thread, &handoff.sender)?;
    if let (Some(record), Intake::Take(_)) = (&request.record, &intake) {
        check_record(engine, &handoff, record)?;
    }
    let mut race = Race { long_ids: false };
    for _ in 0..TRIES {
        let existing = engine
            .keeper
            .act_by_handoff(&thread, &handoff.id)
            .await
            .map_err(store_refusal)?;
        let (act, expect) = match existing {
            None => (blank(engine, caller, &thread, &handoff), Expect::Absent),
            Some(act) => {
                let act = engine.expire_if_due(act).await?;
                match core::standing(&engine.profiles, &act, &handoff.line)? {
                    Standing::Statement | Standing::Closed => return answer(engine, act, true),
                    Standing::Tombstone => match bury(engine, caller, &act, &intake).await? {
                        Some(buried) => return answer(engine, buried, false),
                        None => continue,
                    },
                    Standing::Again => {
                        let version = act.version;
                        (act, Expect::Version(version))
                    }
                }
            }
        };
        if let Some(prepared) = attempt(engine, caller, act, expect, &intake, &mut race).await? {
            return Ok(prepared);
        }
    }
    Err(Refusal::new(Reason::Busy, "this handoff is being changed by others; try again").retry_after(1))
}

/// States a lapsed act again, as its own sender's next prepare would: for an operator that released it.
pub(crate) async fn again(engine: &Arc<Engine>, caller: &Caller, act: Act) -> Result<Prepared, Refusal> {
    let intake = Intake::Take(act.handoff.clone());
    let mut race = Race { long_ids: false };
    let version = act.version;
    match attempt(
        engine,
        caller,
        act.clone(),
        Expect::Version(version),
        &intake,
        &mut race,
    )
    .await?
    {
        Some(prepared) => Ok(prepared),
        // Its sender was faster, or somebody moved it: as it stands.
        None => answer(engine, engine.reload(act.act_id).await?, false),
    }
}

/// The thread's name: the caller's, or the sending agent.
pub(crate) fn thread_name(asked: &str, sender: &str) -> Result<String, Refusal> {
    let name = if asked.is_empty() { sender } else { asked };
    let bad = |c: char| c.is_control() || c.is_whitespace() || is_unseen(c);
    if name.len() > MAX_THREAD_BYTES || name.chars().any(bad) {
        let rule = format!(
            "a thread name has at most {MAX_THREAD_BYTES} bytes and no white space, control or invisible characters"
        );
        return Err(Refusal::malformed("thread", rule));
    }
    Ok(name.to_owned())
}

/// Whether a character shows nothing, or turns round how others show (Unicode UAX #9): two names that differ by it look
/// the same to a person.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn check_record(engine: &Engine, handoff: &Handoff, record: &rw1::Record) -> Result<(), Refusal> {
    let checked = rw1::check_ho(&engine.profiles, None, &handoff.line, record);
    if checked.problems.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = checked.problems.iter().map(|p| p.text.as_str()).collect();
    let mut refusal = Refusal::malformed(
        "ho",
        format!("the handoff differs from the record: {}", texts.join("; ")),
    );
    refusal.slot = checked.problems.iter().find_map(|p| p.slot.clone());
    Err(refusal.with_problems(checked.problems.iter().map(StoredProblem::from).collect()))
}

/// A new act, before anything is known about it but its handoff.
pub(crate) fn blank(engine: &Engine, caller: &Caller, thread: &str, handoff: &Handoff) -> Act {
    let now = engine.keeper.now();
    let age_s = i64::try_from(engine.config.handoff_age.as_secs()).unwrap_or(i64::MAX);
    let limit = core::limit_of(&engine.profiles, handoff, now, age_s);
    Act {
        act_id: engine.new_act_id(now),
        version: 0,
        thread: thread.to_owned(),
        handoff: handoff.clone(),
        principal: caller.name.clone(),
        created_at: now,
        updated_at: now,
        seq: 0,
        head: String::new(),
        lines: 0,
        long_ids: false,
        attempt: 0,
        tokens: Vec::new(),
        limit,
        undo_of: None,
        likeness: None,
        waiting: Vec::new(),
        released_by: None,
        // Replaced by the first write; a blank act is never stored.
        stage: Stage::Refused(core::closed(String::new(), String::new(), now, None)),
    }
}

/// A handoff whose cancel was here first.
async fn bury(
    engine: &Arc<Engine>,
    caller: &Caller,
    grave: &Act,
    intake: &Intake,
) -> Result<Option<Act>, Refusal> {
    let (handoff, outside) = match intake {
        Intake::Take(handoff) => (handoff, false),
        Intake::Refuse { handoff, outside, .. } => (handoff, *outside),
    };
    let id = handoff.id.clone();
    for long_ids in [grave.long_ids, true] {
        let (profiles, mut grave, handoff, principal) = (
            engine.profiles.clone(),
            grave.clone(),
            handoff.clone(),
            caller.name.clone(),
        );
        grave.long_ids = long_ids;
        let written = engine
            .write(move |now| {
                let change = wilco_core::cancel::handoff_after_tombstone(
                    &profiles, &grave, &handoff, outside, &principal, now,
                )?;
                Ok(vec![change])
            })
            .await?;
        match written {
            Written::Advanced { mut acts, .. } => return Ok(acts.pop()),
            Written::Taken(Taken::Message { message_id }) if message_id == id => {
                return Err(id_taken("ho", &id, &message_id));
            }
            // The id of our own line: the next round takes a long one.
            Written::Taken(Taken::Message { .. }) => {}
            Written::Stale { .. } | Written::Taken(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// What a prepare learned from losing a race.
struct Race {
    /// A short line id of ours was taken in the thread.
    long_ids: bool,
}

/// One try: decides, resolves, writes. `None` if somebody else changed what it was decided on.
async fn attempt(
    engine: &Arc<Engine>,
    caller: &Caller,
    mut act: Act,
    expect: Expect,
    intake: &Intake,
    race: &mut Race,
) -> Result<Option<Prepared>, Refusal> {
    act.long_ids |= race.long_ids;
    if let Intake::Refuse {
        why, text, outside, ..
    } = intake
    {
        return refuse(engine, caller, act, expect, why, text, *outside, race).await;
    }
    if act.attempt >= MOST_ATTEMPTS {
        let text = format!(
            "{} was stated {MOST_ATTEMPTS} times; cancel it and hand it over anew",
            act.handoff.id
        );
        return Err(Refusal::new(Reason::Limit, text));
    }
    if engine.keeper.now() >= act.limit {
        let text = "its exp or due has passed";
        return refuse(engine, caller, act, expect, "EXPIRED", text, false, race).await;
    }
    let context = match context(engine, &act).await? {
        Context::Refuse(why, text) => {
            return refuse(engine, caller, act, expect, why, &text, false, race).await;
        }
        Context::Go(context) => context,
    };
    act.undo_of = context.undone.as_ref().map(|u| u.act_id);
    let resolved = match resolve(engine, &act, context.undone).await? {
        Ok(resolved) => resolved,
        Err(Refused { why, text }) => {
            return refuse(engine, caller, act, expect, why, &text, false, race).await;
        }
    };
    wilco_failpoint::reach!("prepare.resolved");
    store(engine, caller, act, expect, resolved, context.supersedes, race).await
}

/// What a handoff refers to in its thread.
enum Context {
    Go(Box<Go>),
    Refuse(&'static str, String),
}

#[derive(Default)]
struct Go {
    supersedes: Option<Act>,
    undone: Option<Undone>,
}

async fn context(engine: &Arc<Engine>, act: &Act) -> Result<Context, Refusal> {
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
    let serves = engine
        .slot_for(&act.handoff.profile, "UNDO")
        .map(|(slot, _)| slot.description.name.as_str());
    if serves != Some(offer.frozen.adapter.as_str()) {
        return Ok(Err((
            "NOCAP",
            format!("{} cannot take back what it did", offer.frozen.adapter),
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
        frozen: offer.frozen.clone(),
        executed: executed.unwrap_or_default(),
        receipt: receipt.clone(),
    }))
}

struct Refused {
    why: &'static str,
    text: String,
}

/// Asks the adapter for every value that would be used.
async fn resolve(
    engine: &Arc<Engine>,
    act: &Act,
    undone: Option<Undone>,
) -> Result<Result<Resolved, Refused>, Refusal> {
    let handoff = &act.handoff;
    let Some((slot, _)) = engine.slot_for(&handoff.profile, &handoff.ask) else {
        let text = format!(
            "no adapter here serves ask {} of profile {}",
            handoff.ask, handoff.profile
        );
        return Ok(Err(Refused { why: "NOCAP", text }));
    };
    let job = job(engine, act, undone);
    let _place = slot.place().await?;
    match slot.adapter.resolve(&job).await {
        Ok(resolved) => {
            slot.heard(None);
            Ok(Ok(resolved))
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

fn job(engine: &Engine, act: &Act, undo: Option<Undone>) -> Job {
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
        exec: exec_slots(engine, handoff),
        undo,
        now: engine.keeper.now(),
    }
}

fn exec_slots(engine: &Engine, handoff: &Handoff) -> Vec<String> {
    let slots = engine
        .profiles
        .get(&handoff.profile)
        .and_then(|p| p.exec(&handoff.ask));
    slots.map(<[String]>::to_vec).unwrap_or_default()
}

/// Freezes and states, in one write, at the store's instant.
async fn store(
    engine: &Arc<Engine>,
    caller: &Caller,
    act: Act,
    expect: Expect,
    resolved: Resolved,
    supersedes: Option<Act>,
    race: &mut Race,
) -> Result<Option<Prepared>, Refusal> {
    let handoff = &act.handoff;
    let (slot, served) = engine.slot_for(&handoff.profile, &handoff.ask).ok_or_else(|| {
        Refusal::new(Reason::AdapterDown, "the adapter that resolved this is gone").retry_after(5)
    })?;
    let notes = resolved.notes.clone();
    let frozen = core::freeze(
        resolved,
        &exec_slots(engine, handoff),
        &slot.description.name,
        (&served.contract, &served.carried),
        engine.profiles.get(&handoff.profile).map_or("", |p| p.digest()),
        act.limit,
    );
    // A short id that was taken may be the new act's or the superseded one's.
    let supersedes = supersedes.map(|target| Act {
        long_ids: target.long_ids || race.long_ids,
        ..target
    });
    let token = TokenRecord {
        attempt: act.attempt + 1,
        hash: engine.token(&act, act.attempt + 1)?.hash(),
        key_id: engine.key_id()?.to_owned(),
    };
    let placed = frozen.clone();
    let act_id = act.act_id;
    let handoff_id = handoff.id.clone();
    let decide_with = |twin: Option<Box<Act>>| {
        let (profiles, principal, ttl_s) = (
            engine.profiles.clone(),
            caller.name.clone(),
            i64::try_from(engine.config.statement_ttl.as_secs()).unwrap_or(i64::MAX),
        );
        let (act, frozen, notes, supersedes, token) = (
            act.clone(),
            frozen.clone(),
            notes.clone(),
            supersedes.clone(),
            token.clone(),
        );
        move |now: Timestamp| {
            let mut changes = Vec::with_capacity(2);
            if let Some(target) = &supersedes {
                changes.push(core::superseded(&profiles, target, &act.handoff.id, now)?);
            }
            let Some(expires_at) = core::statement_end(now, ttl_s, frozen.not_after) else {
                let text = "its end or the counterparty's cut-off has passed";
                if expect != Expect::Absent {
                    return Err(not_again("EXPIRED", text));
                }
                let change = core::refused(
                    &profiles,
                    act.clone(),
                    expect,
                    "EXPIRED",
                    text,
                    false,
                    &principal,
                    now,
                )?;
                return Ok(vec![change]);
            };
            let mut next = act.clone();
            let rb_id = wilco_core::lines::next_id(&mut next);
            let offer = core::state(
                &profiles,
                &next,
                &rb_id,
                frozen.clone(),
                now,
                expires_at,
                notes.clone(),
            )?;
            next.likeness = core::likeness(&profiles, &next.handoff, &offer.frozen);
            next.tokens.push(token.clone());
            let offer = match &twin {
                Some(twin) => twin::held(offer, twin),
                None => offer,
            };
            let guard = match &twin {
                Some(_) => None,
                None => twin::guard_at_prepare(&profiles, &next, supersedes.as_ref().map(|t| t.act_id), now),
            };
            let mut change = core::stated(next, expect, offer, &principal);
            if matches!(change.act.stage, Stage::Prepared(_)) {
                change.unless_twin = guard;
            }
            changes.push(change);
            Ok(changes)
        }
    };
    let mut written = engine.write(decide_with(None)).await;
    if let Ok(Written::Taken(Taken::Twin(twin))) = written {
        tracing::warn!(act = %act_id, twin = %twin.act_id, "held: a likely twin stands");
        written = engine.write(decide_with(Some(twin))).await;
    }
    wilco_failpoint::reach!("prepare.written");
    let lost = |engine: &Engine| engine.withdraw(act_id, placed.clone());
    match written {
        Ok(Written::Advanced { mut acts, .. }) => {
            let act = acts
                .pop()
                .ok_or_else(|| Refusal::new(Reason::StoreDown, "the write returned no act"))?;
            engine.release_if_abandoned(&acts);
            if act.state() == State::Refused {
                lost(engine);
            }
            tracing::info!(act = %act.act_id, thread = act.thread, state = act.state().as_str(), "prepared");
            answer(engine, act, false).map(Some)
        }
        Ok(Written::Taken(Taken::Message { message_id })) if message_id == handoff_id => {
            lost(engine);
            Err(id_taken("ho", &handoff_id, &message_id))
        }
        Ok(Written::Taken(Taken::Message { .. })) => {
            race.long_ids = true;
            lost(engine);
            Ok(None)
        }
        Ok(
            Written::Stale { .. } | Written::Taken(Taken::Handoff(_) | Taken::Undo { .. } | Taken::Twin(_)),
        ) => {
            lost(engine);
            Ok(None)
        }
        Err(refusal) => {
            lost(engine);
            Err(refusal)
        }
    }
}

/// The refusal of a message id that another line of the thread has.
pub(crate) fn id_taken(field: &str, ours: &str, taken: &str) -> Refusal {
    let text = format!("message id {taken} is taken by another line of this thread; give {ours} a new id");
    Refusal::new(Reason::HandoffConflict, text)
        .in_field(field)
        .at_slot("id")
}

/// The refusal of a handoff that was taken before and whose statement lapsed: it stays open, and this is what stands
/// in the way of stating it again.
fn not_again(why: &str, text: &str) -> Refusal {
    let reason = if why == "EXPIRED" {
        Reason::Expired
    } else {
        Reason::Lapsed
    };
    Refusal::new(reason, format!("it cannot be stated again: {text}")).in_field("ho")
}

/// Answers with a stored UN.
#[allow(clippy::too_many_arguments)]
async fn refuse(
    engine: &Arc<Engine>,
    caller: &Caller,
    act: Act,
    expect: Expect,
    why: &'static str,
    text: &str,
    outside: bool,
    race: &mut Race,
) -> Result<Option<Prepared>, Refusal> {
    if expect != Expect::Absent {
        return Err(not_again(why, text));
    }
    let (profiles, text, principal) = (engine.profiles.clone(), text.to_owned(), caller.name.clone());
    let handoff_id = act.handoff.id.clone();
    let written = engine
        .write(move |now| {
            Ok(vec![core::refused(
                &profiles,
                act.clone(),
                expect,
                why,
                &text,
                outside,
                &principal,
                now,
            )?])
        })
        .await?;
    match written {
        Written::Advanced { mut acts, .. } => {
            let act = acts
                .pop()
                .ok_or_else(|| Refusal::new(Reason::StoreDown, "the write returned no act"))?;
            tracing::info!(act = %act.act_id, thread = act.thread, why, "refused");
            answer(engine, act, false).map(Some)
        }
        Written::Taken(Taken::Message { message_id }) if message_id == handoff_id => {
            Err(id_taken("ho", &handoff_id, &message_id))
        }
        Written::Taken(Taken::Message { .. }) => {
            race.long_ids = true;
            Ok(None)
        }
        Written::Stale { .. } | Written::Taken(_) => Ok(None),
    }
}

/// What prepare answers for an act as it stands.
fn answer(engine: &Engine, act: Act, replayed: bool) -> Result<Prepared, Refusal> {
    let mut prepared = Prepared {
        reply: String::new(),
        statement: String::new(),
        statement_sha256: String::new(),
        token: String::new(),
        expires_in_s: 0,
        problems: Vec::new(),
        notes: Vec::new(),
        replayed,
        act,
    };
    if let Some(closed) = prepared.act.closed() {
        prepared.reply.clone_from(&closed.line);
        prepared.problems.clone_from(&closed.problems);
        prepared.notes.clone_from(&closed.notes);
        return Ok(prepared);
    }
    if let Some(offer) = prepared.act.offer() {
        let token = engine.token(&prepared.act, offer.attempt)?.reveal();
        prepared.reply = format!("{} x_tok={token}", offer.statement);
        prepared.statement.clone_from(&offer.statement);
        prepared.statement_sha256.clone_from(&offer.statement_sha256);
        prepared.token = token;
        let left_s = offer.expires_at.seconds_since(engine.keeper.now()).max(0);
        prepared.expires_in_s = u32::try_from(left_s).unwrap_or(u32::MAX);
        prepared.problems.clone_from(&offer.problems);
        prepared.notes.clone_from(&offer.notes);
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_name_hides_nothing() {
        for name in [
            "pay\u{202e}roll",
            "pay\u{200b}roll",
            "\u{feff}pay",
            "pay\u{2067}roll",
            "pay\u{ad}roll",
        ] {
            let refused = thread_name(name, "scheduler").expect_err(name);
            assert_eq!(refused.field.as_deref(), Some("thread"));
        }
        for name in ["payroll", "löhne/給与", "rôle-שכר"] {
            assert_eq!(thread_name(name, "scheduler").expect(name), name);
        }
        assert_eq!(thread_name("", "scheduler").expect("the sender"), "scheduler");
    }
}
