//! Prepare: resolve, freeze, state. Nothing has happened when it returns.

use std::sync::Arc;

use wilco_core::act::StoredProblem;
use wilco_core::prepare::{self as core, Intake, Standing};
use wilco_core::write::Taken;
use wilco_core::{Act, Expect, Handoff, Reason, Refusal, Stage, Written};

use crate::api::{Caller, PrepareRequest, Prepared};
use crate::engine::{Engine, store_refusal};

mod context;
mod resolve;
mod state;

use context::{Context, context};
pub(crate) use resolve::job;
use resolve::{Refused, Resolution, resolve};
use state::store;

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
    let resolved = resolve(engine, &act, context.undone).await;
    // Asked while another prepare of the same handoff stated it, and a commit executed it: the answer is about an act that has
    // moved on (a consent that is used up, by our own order).
    if resolved.is_err() && has_moved(engine, &act, expect).await? {
        return Ok(None);
    }
    let resolution = match resolved? {
        Ok(resolution) => resolution,
        Err(Refused { why, text }) => {
            return refuse(engine, caller, act, expect, why, &text, false, race).await;
        }
    };
    wilco_failpoint::reach!("prepare.resolved");
    store(engine, caller, act, expect, resolution, context.supersedes, race).await
}

/// Whether the handoff's act is not any more what this prepare was decided on.
async fn has_moved(engine: &Engine, act: &Act, expect: Expect) -> Result<bool, Refusal> {
    let found = engine.keeper.act_by_handoff(&act.thread, &act.handoff.id).await;
    let stands = found.map_err(store_refusal)?.map(|found| found.version);
    Ok(match expect {
        Expect::Absent => stands.is_some(),
        Expect::Version(version) => stands != Some(version),
    })
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
