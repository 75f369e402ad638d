//! Executing a claimed act, and writing down what came of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_adapter::{Outcome, Permit, Report};
use wilco_core::settle::{Bearer, Executed, News, Pace};
use wilco_core::write::Taken;
use wilco_core::{Act, ActId, Durable, Reason, Refusal, Stage, Verdict, Written};

use crate::commit::news_of;
use crate::engine::{Engine, StoreClock};
use crate::running::InFlight;
use crate::slot::Place;

/// The longest pause between two tries to write an outcome while the store does not take it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often it is tried while others keep moving the act: more than can (waiting cancels are bounded).
const MOST_MOVES: u32 = 100;

/// Sets a claimed act going in a task of its own. Without proof of the claim nothing is sent.
pub(crate) fn start(
    engine: &Arc<Engine>,
    act: Arc<Act>,
    durable: &Durable,
    in_flight: InFlight,
    place: Place,
) {
    let clock = Arc::new(StoreClock(Arc::clone(&engine.keeper)));
    let Some(permit) = Permit::from_claim(&act, durable, clock) else {
        tracing::error!(act = %act.act_id, "no permit for a claimed act: nothing was sent, recovery will look it up");
        return;
    };
    let engine = Arc::clone(engine);
    let this = Arc::clone(&engine);
    this.spawn(async move {
        let _in_flight = in_flight;
        run(&engine, act, permit, place).await;
    });
}

async fn run(engine: &Arc<Engine>, act: Arc<Act>, permit: Permit, place: Place) {
    let act_id = act.act_id;
    let Some(execution) = act.execution() else { return };
    let Some(slot) = engine.slot_named(&execution.offer.frozen.adapter) else {
        return;
    };
    let (adapter, frozen) = (Arc::clone(&slot.adapter), execution.offer.frozen.clone());
    wilco_failpoint::reach!("execute.permit");
    // A task of its own once more: should the adapter panic, the act is in doubt, and nothing else is lost.
    let call = engine.spawn(async move { adapter.execute(permit, &frozen).await });
    let outcome = call
        .await
        .unwrap_or_else(|e| Outcome::Unknown(format!("the adapter's call ended abnormally: {e}")));
    drop(place);
    wilco_failpoint::reach!("settle.outcome");
    slot.heard(match &outcome {
        Outcome::Unknown(text) | Outcome::NotSent(text) => Some(text.clone()),
        _ => None,
    });
    let too_late = engine.keeper.now() >= execution.claim.not_after;
    let news = news_of(outcome, too_late, execution.progress.others_open);
    let from = Bearer::of(&execution.claim);
    if let Err(refusal) = record_from(engine, Some(Arc::clone(&act)), act_id, &news, &from).await {
        tracing::error!(act = %act_id, error = %refusal, "the outcome could not be written; recovery will look it up");
    }
}

/// Writes news about an act down: closes it, leaves it in doubt, or, where it is closed already or somebody else holds
/// the claim by now, keeps the evidence.
pub(crate) async fn record(
    engine: &Arc<Engine>,
    act_id: ActId,
    news: &News,
    from: &Bearer,
) -> Result<Act, Refusal> {
    record_from(engine, None, act_id, news, from).await
}

/// The same, first on the act as it is `known`: where it has moved since, the store says so and it is read.
async fn record_from(
    engine: &Arc<Engine>,
    mut known: Option<Arc<Act>>,
    act_id: ActId,
    news: &News,
    from: &Bearer,
) -> Result<Act, Refusal> {
    let mut pause = Duration::from_millis(50);
    let mut long_ids = false;
    let mut moves = 0;
    // As long as this process lives, it knows what nobody else may be able to find out again.
    while moves < MOST_MOVES && !engine.grace_over().is_cancelled() {
        match record_once(engine, known.take(), act_id, news, from, &mut long_ids).await {
            Ok(Some(act)) => return Ok(act),
            Ok(None) => moves += 1,
            Err(refusal) if matches!(refusal.reason, Reason::StoreDown | Reason::Busy) => {
                tracing::warn!(act = %act_id, error = %refusal, "writing an outcome failed; trying again");
                tokio::select! {
                    biased;
                    () = engine.grace_over().cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(refusal) => return Err(refusal),
        }
    }
    Err(Refusal::new(Reason::StoreDown, "the outcome could not be written").retry_after(2))
}

async fn record_once(
    engine: &Arc<Engine>,
    known: Option<Arc<Act>>,
    act_id: ActId,
    news: &News,
    from: &Bearer,
    long_ids: &mut bool,
) -> Result<Option<Act>, Refusal> {
    let mut act = match known {
        Some(act) => act,
        None => Arc::new(engine.reload(act_id).await?),
    };
    if *long_ids && !act.long_ids {
        Arc::make_mut(&mut act).long_ids = true;
    }
    let Some(execution) = act.execution().filter(|_| from.holds(&act)) else {
        return evidence(engine, &act, news, from).await;
    };
    let contract = engine.contract_for(&act, &execution.offer.frozen);
    let (profiles, before, heard, pace) = (
        engine.profiles.clone(),
        Arc::clone(&act),
        news.clone(),
        pace(engine),
    );
    let written = engine
        .write(move |now| {
            let change = wilco_core::settle::settle(&profiles, &before, &heard, &contract, pace, now)?;
            Ok(change.into_iter().collect())
        })
        .await?;
    wilco_failpoint::reach!("settle.written");
    match written {
        Written::Advanced { mut acts, .. } => {
            let written = acts.pop();
            if let Some(after) = &written {
                tell(engine, &act, after);
            }
            Ok(written)
        }
        Written::Taken(Taken::Message { .. }) => {
            *long_ids = true;
            Ok(None)
        }
        Written::Stale { .. } | Written::Taken(_) => Ok(None),
    }
}

fn pace(engine: &Engine) -> Pace {
    let seconds = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    Pace {
        first_s: seconds(engine.config.lookup_pause),
        longest_s: seconds(engine.config.lookup_pause_max),
        escalate_after: engine.config.lookups_before_escalation,
    }
}

/// Says in the log what operators must know.
fn tell(engine: &Engine, before: &Act, after: &Act) {
    let (act, thread, state) = (after.act_id, after.thread.as_str(), after.state().as_str());
    match &after.stage {
        Stage::Done(closed) if closed.verdict == Some(Verdict::Contradicted) => {
            engine.stats.contradictions.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%act, thread, "carried out twice: a person must take one order back");
        }
        Stage::Done(closed) if closed.verdict != Some(Verdict::Match) => {
            engine.stats.mismatches.fetch_add(1, Ordering::Relaxed);
            let problem = closed.problems.first().map_or("", |p| p.text.as_str());
            tracing::error!(%act, thread, problem, "what ran is not what was stated: a person must look");
        }
        Stage::InDoubt(e)
            if e.progress.escalated && !before.execution().is_some_and(|b| b.progress.escalated) =>
        {
            tracing::error!(%act, thread, reason = e.progress.reason, "still in doubt: a person must look");
        }
        Stage::InDoubt(e) => tracing::warn!(%act, thread, reason = e.progress.reason, "in doubt"),
        _ => tracing::info!(%act, thread, state, "settled"),
    }
}

/// Keeps news that may not change the state, and shouts where it contradicts a close.
async fn evidence(
    engine: &Arc<Engine>,
    act: &Act,
    news: &News,
    from: &Bearer,
) -> Result<Option<Act>, Refusal> {
    let (before, heard, bearer) = (act.clone(), news.clone(), from.clone());
    let written = engine
        .write(move |now| Ok(vec![wilco_core::settle::evidence(&before, &heard, &bearer, now)]))
        .await?;
    match written {
        Written::Advanced { mut acts, .. } => {
            if wilco_core::settle::contradicts(act, news, from) {
                engine.stats.contradictions.fetch_add(1, Ordering::Relaxed);
                tracing::error!(act = %act.act_id, "later evidence contradicts the closing line: a person must look");
            }
            Ok(acts.pop())
        }
        Written::Stale { .. } | Written::Taken(_) => Ok(None),
    }
}

/// An adapter's report, in the core's words.
pub(crate) fn executed(report: Report) -> Executed {
    Executed {
        values: report.values,
        receipt: report.receipt,
        status: report.status,
        provisional: report.provisional,
    }
}
