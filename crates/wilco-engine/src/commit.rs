//! Commit: claim, and only then act.
//!
//! The beat of this file is the product: the claim is on stable storage, the write answers with the proof, the proof
//! yields the permit, and only the permit lets the adapter send.

use std::sync::Arc;
use std::time::Duration;

use wilco_adapter::Ready;
use wilco_core::commit::{self as core, Claimant, Confirmation, Next, Quoted};
use wilco_core::settle::News;
use wilco_core::token::Token;
use wilco_core::twin;
use wilco_core::write::Taken;
use wilco_core::{Act, ActId, Offer, Reason, Refusal, Stage, State, Written};

use crate::api::{Caller, CommitRequest, Committed};
use crate::engine::{Engine, store_refusal};
use crate::execute;
use crate::prepare::id_taken;
use crate::running::Waiters;

const TRIES: u32 = 8;

/// How often a waiting caller looks whether its act still runs, once the daemon is stopping.
const STOPPING_LOOK: Duration = Duration::from_millis(50);

/// How long a commit waits for another caller's claim of the same act to be written: one write of the store.
const CLAIM_WAIT: Duration = Duration::from_secs(10);

/// How often it looks meanwhile whether that claim came to nothing.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn commit(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: CommitRequest,
) -> Result<Committed, Refusal> {
    let token = Token::parse(&request.token).ok_or_else(unknown_token)?;
    let give_up = tokio::time::Instant::now() + CLAIM_WAIT;
    let mut lost = 0;
    while lost < TRIES && tokio::time::Instant::now() < give_up {
        let act = Arc::new(act_of(engine, caller, &token).await?);
        let quoted = Quoted {
            attempt: token.attempt,
            statement_sha256: &request.statement_sha256,
            confirmation: &request.confirmation,
        };
        match core::decide(&engine.profiles, &act, quoted)? {
            Next::Answer => return Ok(answer(Arc::unwrap_or_clone(act), true)),
            Next::Join => {
                let act = until_closed(engine, act.act_id, engine.wait(request.wait)).await?;
                wilco_failpoint::reach!("commit.answering");
                return Ok(answer(act, true));
            }
            Next::Decline(confirmation) => {
                if let Some(act) = decline(engine, caller, &act, confirmation).await? {
                    return Ok(answer(act, false));
                }
                lost += 1;
            }
            Next::Claim(confirmation) => match claim_and_execute(engine, caller, &act, confirmation).await? {
                Claimed::Ours(act, heard) => {
                    let act = until_closed_from(engine, act, &heard, engine.wait(request.wait)).await?;
                    wilco_failpoint::reach!("commit.answering");
                    return Ok(answer(act, false));
                }
                Claimed::Closed(act) => return Ok(answer(*act, false)),
                // What comes of the other caller's claim is the answer to this one too.
                Claimed::Elsewhere => {}
                Claimed::Lost => lost += 1,
            },
        }
    }
    Err(Refusal::new(Reason::Busy, "this act is being changed by others; ask again").retry_after(1))
}

fn unknown_token() -> Refusal {
    Refusal::new(Reason::UnknownToken, "no such token").in_field("token")
}

/// The act a token opens. Unknown and not yours are the same answer.
pub(crate) async fn act_of(engine: &Engine, caller: &Caller, token: &Token) -> Result<Act, Refusal> {
    let act = engine
        .keeper
        .act(token.act_id)
        .await
        .map_err(store_refusal)?
        .ok_or_else(unknown_token)?;
    let given_out = act.tokens.iter().find(|t| t.attempt == token.attempt);
    let genuine = given_out.is_some_and(|t| token.matches(&t.hash));
    if genuine && caller.speaks_for(&act.handoff.sender) {
        Ok(act)
    } else {
        Err(unknown_token())
    }
}

async fn decline(
    engine: &Arc<Engine>,
    caller: &Caller,
    act: &Act,
    confirmation: Confirmation,
) -> Result<Option<Act>, Refusal> {
    let Stage::Prepared(offer) = act.stage.clone() else {
        return Ok(None);
    };
    let (before, principal, id) = (act.clone(), caller.name.clone(), confirmation.id.clone());
    let written = engine
        .write(move |_| Ok(vec![core::decline(&before, &offer, &confirmation, &principal)]))
        .await?;
    wilco_failpoint::reach!("commit.declined");
    match written {
        Written::Advanced { mut acts, .. } => {
            engine.release_if_abandoned(&acts);
            Ok(acts.pop())
        }
        Written::Taken(Taken::Message { message_id }) => Err(id_taken("confirmation", &id, &message_id)),
        Written::Stale { .. } | Written::Taken(_) => Ok(None),
    }
}

/// What came of an attempt to claim.
enum Claimed {
    /// It is ours and set going: the act as claimed, and what is heard of it since.
    Ours(Arc<Act>, Arc<Waiters>),
    /// The counterparty refused its object for good: closed, nothing was sent.
    Closed(Box<Act>),
    /// Another caller is claiming it, or was a moment ago.
    Elsewhere,
    /// Somebody else moved it first.
    Lost,
}

/// Claims the act and sets it going.
async fn claim_and_execute(
    engine: &Arc<Engine>,
    caller: &Caller,
    act: &Arc<Act>,
    confirmation: Confirmation,
) -> Result<Claimed, Refusal> {
    let Stage::Prepared(offer) = &act.stage else {
        return Ok(Claimed::Lost);
    };
    let Some(slot) = engine.slot_named(&offer.frozen.adapter) else {
        let text = format!("adapter {} is not configured here any more", offer.frozen.adapter);
        return Err(Refusal::new(Reason::AdapterDown, text));
    };
    slot.is_up()?;
    // Taken before the claim and kept until the call is over: what is claimed never waits to be sent.
    let place = slot.place().await?;
    let ready = slot.adapter.ready(act.act_id, &offer.frozen).await;
    // Asked while another commit of the same token claimed and acted: the answer is about an act that has moved on (a
    // consent that is used up, by our own order).
    if ready != Ready::Yes && engine.reload(act.act_id).await?.version != act.version {
        return Ok(Claimed::Elsewhere);
    }
    match ready {
        Ready::Yes => {}
        Ready::Awaiting { link, text } => {
            let at = link.map(|l| format!(" at {l}")).unwrap_or_default();
            let text = format!("not yet: {text}{at}; then commit again");
            return Err(Refusal::new(Reason::NotApproved, text)
                .with_line(&offer.statement)
                .retry_after(10));
        }
        Ready::NotYet { from, text } => {
            let wait_s = u32::try_from(from.seconds_since(engine.keeper.now()).max(1)).unwrap_or(u32::MAX);
            let text = format!("not before {}: {text}; commit again then", from.to_rfc3339());
            return Err(Refusal::new(Reason::NotApproved, text)
                .with_line(&offer.statement)
                .retry_after(wait_s));
        }
        Ready::Refused { text } => return close_refused(engine, act, text).await,
        Ready::Unknown(text) => {
            slot.heard(Some(text.clone()));
            let text = format!(
                "{} did not say whether it is ready: {text}; nothing was sent, try again",
                offer.frozen.adapter
            );
            return Err(Refusal::new(Reason::AdapterDown, text).retry_after(5));
        }
    }

    wilco_failpoint::reach!("commit.ready");
    // Entered before the claim is written, so that recovery never finds it claimed and running nowhere.
    let waiters = engine.running.watch(act.act_id);
    let changed = waiters.notified();
    let Some(in_flight) = engine.running.enter(act.act_id) else {
        drop(place);
        // Written, or given up: the caller looks at the act again either way.
        drop(tokio::time::timeout(CLAIM_PAUSE, changed).await);
        return Ok(Claimed::Elsewhere);
    };
    let claimant = Claimant {
        owner: engine.owner.clone(),
        principal: caller.name.clone(),
        deadline_s: i64::try_from(engine.config.execution_deadline.as_secs()).unwrap_or(i64::MAX),
    };
    let (before, stated, id) = (Arc::clone(act), offer.clone(), confirmation.id.clone());
    let profiles = engine.profiles.clone();
    let written = engine
        .write(move |now| {
            let mut change = core::claim(&before, &stated, &confirmation, &claimant, now);
            if matches!(change.act.stage, Stage::Executing(_)) {
                change.unless_twin = twin::guard_at_claim(&profiles, &before, now);
            }
            Ok(vec![change])
        })
        .await?;
    match written {
        Written::Advanced {
            mut acts, durable, ..
        } => {
            wilco_failpoint::reach!("commit.claim_written");
            let act = acts
                .pop()
                .ok_or_else(|| Refusal::new(Reason::StoreDown, "the claim returned no act"))?;
            if let Stage::Lapsed(offer, _) = &act.stage {
                engine.release_if_abandoned(std::slice::from_ref(&act));
                return Err(late(offer));
            }
            let act = Arc::new(act);
            // ---- the claim is durable: from here on the act is carried out, whoever hangs up
            execute::start(engine, Arc::clone(&act), &durable, in_flight, place);
            Ok(Claimed::Ours(act, Arc::clone(&waiters)))
        }
        Written::Taken(Taken::Message { message_id }) => Err(id_taken("confirmation", &id, &message_id)),
        Written::Taken(Taken::Twin(twin)) => {
            let (before, offer) = (act.clone(), offer.clone());
            engine
                .write(move |_| Ok(vec![twin::hold(&before, &offer, &twin)]))
                .await?;
            // Read again: held now, or moved by somebody else.
            Ok(Claimed::Lost)
        }
        Written::Stale { .. } | Written::Taken(_) => Ok(Claimed::Lost),
    }
}

fn late(offer: &Offer) -> Refusal {
    let text = format!(
        "the confirmation came too late: the statement ended at {}; nothing was done, prepare the handoff again",
        offer.expires_at.to_rfc3339()
    );
    Refusal::new(Reason::Expired, text).with_line(&offer.statement)
}

/// The counterparty's own object was refused for good: the act can never be executed.
async fn close_refused(engine: &Arc<Engine>, act: &Act, text: String) -> Result<Claimed, Refusal> {
    let profiles = engine.profiles.clone();
    let written = engine
        .write_line(act, move |before, now| {
            let mut next = before.clone();
            let mut entries = Vec::new();
            let closed =
                wilco_core::settle::fail(&profiles, &mut next, "PERM", &text, None, &mut entries, now)?;
            next.stage = Stage::Failed(closed);
            Ok(Some(wilco_core::Change {
                unless_twin: None,
                expect: wilco_core::Expect::Version(before.version),
                act: next,
                entries,
            }))
        })
        .await?;
    let Written::Advanced { mut acts, .. } = written else {
        return Ok(Claimed::Lost);
    };
    engine.release_if_abandoned(&acts);
    Ok(acts
        .pop()
        .map_or(Claimed::Lost, |act| Claimed::Closed(Box::new(act))))
}

/// The act once it is closed, or as it stands after `wait`.
pub(crate) async fn until_closed(
    engine: &Arc<Engine>,
    act_id: ActId,
    wait: Duration,
) -> Result<Act, Refusal> {
    // Heard from before it is read, so that nothing is missed in between.
    let heard = engine.running.watch(act_id);
    let act = engine.reload(act_id).await?;
    until_closed_from(engine, Arc::new(act), &heard, wait).await
}

/// The same, for an act that is known and was heard of since: whoever writes it here tells how it stands, so nobody needs
/// to read it again.
async fn until_closed_from(
    engine: &Arc<Engine>,
    mut act: Arc<Act>,
    heard: &Waiters,
    wait: Duration,
) -> Result<Act, Refusal> {
    let (act_id, deadline) = (act.act_id, tokio::time::Instant::now() + wait);
    loop {
        let changed = heard.notified();
        if let Some(newer) = heard.newer(act.version) {
            act = newer;
        }
        if act.state().is_final() || matches!(act.state(), State::Lapsed) {
            return Ok(Arc::unwrap_or_clone(act));
        }
        let stopping = engine.stopping().is_cancelled();
        // Nobody looks up any more; what is still being executed here may yet answer within the grace.
        if stopping && !(act.state() == State::Executing && engine.running.contains(act_id)) {
            return engine.reload(act_id).await;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => return engine.reload(act_id).await,
            () = engine.grace_over().cancelled() => return engine.reload(act_id).await,
            () = engine.stopping().cancelled(), if !stopping => {}
            () = tokio::time::sleep(STOPPING_LOOK), if stopping => {}
            // Another daemon may be the one that writes: its hint can be lost, the row cannot.
            () = tokio::time::sleep(engine.config.poll_interval) => act = Arc::new(engine.reload(act_id).await?),
            () = changed => {
                if heard.newer(act.version).is_none() {
                    act = Arc::new(engine.reload(act_id).await?);
                }
            }
        }
    }
}

/// What commit answers for an act as it stands.
fn answer(act: Act, replayed: bool) -> Committed {
    let (reply, problems, mut notes) = match act.closed() {
        Some(closed) => (closed.line.clone(), closed.problems.clone(), closed.notes.clone()),
        None => (String::new(), Vec::new(), Vec::new()),
    };
    match &act.stage {
        Stage::Executing(_) => notes.push("it is being executed; ask again for the outcome".to_owned()),
        Stage::InDoubt(e) => notes.push(format!("its outcome is not known yet: {}", e.progress.reason)),
        Stage::Lapsed(..) => notes.push("the statement was declined; the handoff is still open".to_owned()),
        _ => {}
    }
    Committed {
        reply,
        act,
        problems,
        notes,
        replayed,
    }
}

/// What an execution's end means, in the core's words.
///
/// An answer speaks for its own sending alone. While an earlier owner's call may still be going on, "refused" and "not
/// sent" say nothing about that one.
pub(crate) fn news_of(outcome: wilco_adapter::Outcome, too_late: bool, others_open: bool) -> News {
    use wilco_adapter::Outcome;
    match outcome {
        Outcome::Rejected(text) | Outcome::NotSent(text) if others_open => News::CallUnknown(text),
        Outcome::Executed(report) => News::Executed(execute::executed(report)),
        Outcome::Accepted(report) => News::Accepted(execute::executed(report)),
        Outcome::Rejected(text) => News::Refused(text),
        Outcome::NotSent(text) => News::NotDone {
            why: if too_late { "EXPIRED" } else { "ERR" },
            text,
        },
        Outcome::Unknown(text) => News::CallUnknown(text),
    }
}
