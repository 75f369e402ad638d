//! Recovery: carries out the plan for acts whose time has come, at start and every few seconds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wilco_adapter::Found;
use wilco_core::recovery::{self, Fate, Owners, Step, plan};
use wilco_core::settle::{Bearer, News};
use wilco_core::{Act, ActId, Claim, Frozen, Refusal, Written};

use crate::engine::Engine;
use crate::execute::{self, executed, record};
use crate::running::InFlight;

/// How many due acts one round takes.
const ROUND: u32 = 256;

/// Takes over what an earlier run left claimed, whether due or not.
pub(crate) fn left_claimed(engine: &Arc<Engine>, claimed: &[Act]) {
    if !claimed.is_empty() {
        tracing::warn!(
            acts = claimed.len(),
            "an earlier run left acts claimed; looking them up"
        );
    }
    carry_out(engine, claimed);
}

/// Looks round until the daemon stops.
pub(crate) async fn forever(engine: &Arc<Engine>) {
    let mut left_to_others = 0;
    loop {
        tokio::select! {
            biased;
            () = engine.stopping().cancelled() => return,
            () = tokio::time::sleep(engine.config.recovery_interval) => {}
        }
        engine.watch.forget_old();
        let now = engine.keeper.now();
        // What is in hand already stays due until its answer is written: room beside it for the others.
        // So do other daemons' claims under watch, and what is left to them.
        let beside = engine.running.len() + engine.watch.len() + left_to_others;
        let beside = u32::try_from(beside).unwrap_or(u32::MAX);
        match engine.keeper.due(now, ROUND.saturating_add(beside)).await {
            Ok(due) => {
                left_to_others = due.iter().filter(|act| is_for_others(engine, act)).count();
                carry_out(engine, &due);
            }
            Err(error) => tracing::error!(%error, "looking for acts that are due failed; trying again"),
        }
    }
}

/// Sets each step going in a task of its own and waits for none of them: one counterparty that does not answer must
/// not keep the others' acts waiting.
fn carry_out(engine: &Arc<Engine>, due: &[Act]) {
    if due.is_empty() {
        return;
    }
    for step in plan_for(engine, due, &engine.running.snapshot()) {
        let act_id = match step {
            Step::Leave(_) => continue,
            Step::Watch(id) if due.iter().any(|act| act.act_id == id && has_open_calls(act)) => id,
            Step::Watch(_) => continue,
            Step::Expire(id) | Step::TakeOver(id, _) | Step::LookUp(id) | Step::Audit(id) => id,
        };
        // While this step runs, the next round leaves the act alone. A step that panics is found due again.
        let Some(in_hand) = engine.running.enter(act_id) else {
            continue;
        };
        let this = Arc::clone(engine);
        engine.spawn(async move {
            if let Err(refusal) = take(&this, act_id, in_hand).await {
                tracing::warn!(act = %act_id, error = %refusal, "recovery of this act failed; trying again");
            }
        });
    }
}

fn plan_for(engine: &Engine, acts: &[Act], in_flight: &HashSet<ActId>) -> Vec<Step> {
    let silent = |act: &Act| engine.watch.is_silent(act) && engine.can_work_on(act);
    look_for_a_double(engine, acts);
    let owners = Owners {
        me: &engine.owner,
        in_flight,
        others_are_dead: engine.config.sole_owner,
        since: engine.since,
        doubled: engine.doubled.load(Ordering::SeqCst),
        silent: &silent,
    };
    let mut steps = plan(acts, &owners, engine.keeper.now());
    steps.retain(|step| match step {
        Step::Expire(id) | Step::Audit(id) => {
            !acts.iter().any(|a| a.act_id == *id && is_for_others(engine, a))
        }
        _ => true,
    });
    steps
}

/// Whether an act nobody holds is left to other daemons: this one lacks its adapter or profile, and would only be in
/// their way.
fn is_for_others(engine: &Engine, act: &Act) -> bool {
    !engine.config.sole_owner && act.execution().is_none() && !engine.can_work_on(act)
}

/// Notes, for as long as this run lives, that its folder's lock proves nobody dead.
fn look_for_a_double(engine: &Engine, acts: &[Act]) {
    if engine.config.sole_owner {
        return;
    }
    let proves = |act: &&Act| recovery::proves_double(act, &engine.owner, engine.since);
    let Some(act) = acts.iter().find(proves) else {
        return;
    };
    if !engine.doubled.swap(true, Ordering::SeqCst) {
        let owner = act.execution().map_or("", |e| e.claim.owner.as_str());
        tracing::error!(
            act = %act.act_id,
            owner,
            me = engine.owner,
            "another daemon runs on a copy of this data folder and under its name: stop one of the two, remove `house.id` \
             from its folder, and start it again; until both are told apart, none of their claims is taken for a dead run's"
        );
    }
}

/// Takes the step an act in hand needs. Planned again on the act as it stands now: its execution may have ended after
/// the list of due acts was read.
async fn take(engine: &Arc<Engine>, act_id: ActId, in_hand: InFlight) -> Result<(), Refusal> {
    let act = engine.reload(act_id).await?;
    let steps = plan_for(engine, std::slice::from_ref(&act), &HashSet::new());
    match steps.first() {
        None | Some(Step::Leave(_)) => Ok(()),
        Some(Step::Watch(_)) => vouch(engine, act).await,
        Some(Step::Expire(_)) => engine.expire_if_due(act).await.map(drop),
        Some(Step::TakeOver(_, fate)) => match take_over(engine, &act, *fate).await? {
            Some(act) => settle_by_looking(engine, act, in_hand).await,
            None => Ok(()),
        },
        Some(Step::LookUp(_)) => settle_by_looking(engine, act, in_hand).await,
        Some(Step::Audit(_)) => audit(engine, act).await,
    }
}

fn has_open_calls(act: &Act) -> bool {
    act.execution().is_some_and(|e| !e.progress.open_calls.is_empty())
}

/// Somebody else holds the claim; what is known here is that calls of earlier runs on this folder ended with them.
async fn vouch(engine: &Arc<Engine>, act: Act) -> Result<(), Refusal> {
    // The lock that vouches for them says nothing of a copy's.
    if engine.doubled.load(Ordering::SeqCst)
        || recovery::vouch(&act, &engine.owner, engine.keeper.now()).is_none()
    {
        return Ok(());
    }
    let me = engine.owner.clone();
    let act_id = act.act_id;
    engine
        .write(move |now| Ok(recovery::vouch(&act, &me, now).into_iter().collect()))
        .await?;
    tracing::info!(act = %act_id, "calls of an earlier run of this daemon ended with it");
    Ok(())
}

/// Makes the claim ours. `None` if somebody moved the act first.
async fn take_over(engine: &Arc<Engine>, act: &Act, fate: Fate) -> Result<Option<Act>, Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(None);
    };
    let (before, from, me) = (act.clone(), Bearer::of(&execution.claim), engine.owner.clone());
    wilco_failpoint::reach!("recover.taking_over");
    let written = engine
        .write(move |now| {
            Ok(recovery::take_over(&before, &from, &me, fate, now)
                .into_iter()
                .collect())
        })
        .await?;
    let Written::Advanced { mut acts, .. } = written else {
        return Ok(None);
    };
    wilco_failpoint::reach!("recover.taken_over");
    engine.stats.takeovers.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(act = %act.act_id, owner = execution.claim.owner, ?fate, "claim taken over");
    Ok(acts.pop())
}

/// Finds out what became of an act whose claim is ours: from what its earlier owner reported, or from the
/// counterparty; and where neither can ever tell, sends the same bytes again if the counterparty enforces their
/// identity.
async fn settle_by_looking(engine: &Arc<Engine>, act: Act, in_hand: InFlight) -> Result<(), Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(());
    };
    let from = Bearer::of(&execution.claim);
    if let Some(heard) = execution.progress.heard.clone() {
        return record(engine, act.act_id, &News::Executed(heard), &from)
            .await
            .map(drop);
    }
    let Some(news) = ask(engine, &act, &execution.offer.frozen, &execution.claim).await? else {
        return Ok(());
    };
    wilco_failpoint::reach!("recover.looked");
    let absent = matches!(news, News::LookupAbsent { .. });
    let act = record(engine, act.act_id, &news, &from).await?;
    if absent && from.holds(&act) {
        return send_again(engine, act, &from, in_hand).await;
    }
    Ok(())
}

/// Sends the same bytes again, under a claim of its own, where the rules allow it.
async fn send_again(engine: &Arc<Engine>, act: Act, from: &Bearer, in_hand: InFlight) -> Result<(), Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(());
    };
    let frozen = &execution.offer.frozen;
    let contract = engine.contract_for(&act, frozen);
    if !recovery::may_resend(&act, &contract, engine.keeper.now()) {
        return Ok(());
    }
    let Some(slot) = engine.slot_named(&frozen.adapter) else {
        return Ok(());
    };
    // Taken before it is claimed again, as in a first sending: what is claimed never waits to be sent.
    let place = tokio::select! {
        biased;
        place = slot.place_for_claimed() => place,
        () = engine.stopping().cancelled() => None,
    };
    let Some(place) = place else { return Ok(()) };
    let deadline_s = i64::try_from(engine.config.execution_deadline.as_secs()).unwrap_or(i64::MAX);
    let (before, from) = (act.clone(), from.clone());
    let written = engine
        .write(move |now| {
            Ok(recovery::reclaim(&before, &contract, &from, deadline_s, now)
                .into_iter()
                .collect())
        })
        .await?;
    if let Written::Advanced {
        mut acts, durable, ..
    } = written
        && let Some(act) = acts.pop()
    {
        wilco_failpoint::reach!("recover.resending");
        engine.stats.resends.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(act = %act.act_id, "its owner may be paused and the counterparty knows nothing of it: the same bytes again");
        execute::start(engine, Arc::new(act), &durable, in_hand, place);
    }
    Ok(())
}

/// Asks the counterparty again about an act that was closed because nobody found it, or by a report that is not final.
async fn audit(engine: &Arc<Engine>, act: Act) -> Result<(), Refusal> {
    let Some((offer, claim)) = act.closed().and_then(|c| c.offer.as_ref().zip(c.claim.as_ref())) else {
        return Ok(());
    };
    let Some(news) = ask(engine, &act, &offer.frozen, claim).await? else {
        return Ok(());
    };
    let from = Bearer::of(claim);
    if wilco_core::settle::contradicts(&act, &news, &from) {
        return record(engine, act.act_id, &news, &from).await.map(drop);
    }
    let contract = engine.contract_for(&act, &offer.frozen);
    let before = act.clone();
    engine
        .write(move |now| {
            Ok(wilco_core::settle::audited(&before, &news, &contract, now)
                .into_iter()
                .collect())
        })
        .await
        .map(drop)
}

/// What the counterparty says of an act; `None` where the daemon is stopping.
async fn ask(
    engine: &Arc<Engine>,
    act: &Act,
    frozen: &Frozen,
    claim: &Claim,
) -> Result<Option<News>, Refusal> {
    let Some(slot) = engine.slot_named(&frozen.adapter) else {
        // An unanswered lookup like any other: it backs off, and calls a person.
        let text = format!("adapter {} is not configured", frozen.adapter);
        return Ok(Some(News::LookupUnknown(text)));
    };
    let _place = tokio::select! {
        biased;
        place = slot.place_for_claimed() => place,
        () = engine.stopping().cancelled() => return Ok(None),
    };
    wilco_failpoint::reach!("recover.looking");
    engine.stats.lookups.fetch_add(1, Ordering::Relaxed);
    let asked_at = engine.keeper.now();
    let receipt = match act.execution() {
        Some(execution) => execution.progress.receipt.as_deref(),
        None => act.closed().and_then(|closed| closed.receipt.as_deref()),
    };
    let asked = slot.adapter.lookup(act.act_id, frozen, claim.claimed_at, receipt);
    let found = asked.await;
    slot.heard(match &found {
        Found::Unknown(text) => Some(text.clone()),
        _ => None,
    });
    Ok(Some(match found {
        Found::Executed(report) => News::Executed(executed(report)),
        Found::Accepted(report) => News::Accepted(executed(report)),
        Found::Rejected(text) => News::Refused(text),
        Found::Exists(text) => News::LookupExists(text),
        Found::Absent(text) => News::LookupAbsent { asked_at, text },
        Found::Unknown(text) => News::LookupUnknown(text),
    }))
}
