//! Recovery: carries out the plan for acts whose time has come, at start and every few seconds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wilco_adapter::Found;
use wilco_core::recovery::{Owners, Step, plan};
use wilco_core::settle::News;
use wilco_core::{Act, ActId, Claim, Frozen, Refusal};

use crate::engine::Engine;
use crate::execute::{executed, record};

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
    loop {
        tokio::select! {
            () = engine.stopping().cancelled() => return,
            () = tokio::time::sleep(engine.config.recovery_interval) => {}
        }
        let now = engine.keeper.now();
        // What is in hand already stays due until its answer is written: room beside it for the others.
        let in_hand = u32::try_from(engine.running.len()).unwrap_or(u32::MAX);
        match engine.keeper.due(now, ROUND.saturating_add(in_hand)).await {
            Ok(due) => carry_out(engine, &due),
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
            Step::Expire(id) | Step::TakeOver(id) | Step::LookUp(id) | Step::Audit(id) => id,
        };
        // While this step runs, the next round leaves the act alone. A step that panics is found due again.
        let Some(in_hand) = engine.running.enter(act_id) else {
            continue;
        };
        let this = Arc::clone(engine);
        engine.spawn(async move {
            let _in_hand = in_hand;
            if let Err(refusal) = take(&this, act_id).await {
                tracing::warn!(act = %act_id, error = %refusal, "recovery of this act failed; trying again");
            }
        });
    }
}

fn plan_for(engine: &Engine, acts: &[Act], in_flight: &HashSet<ActId>) -> Vec<Step> {
    let owners = Owners {
        me: &engine.owner,
        in_flight,
        others_are_dead: engine.config.sole_owner,
    };
    plan(acts, &owners, engine.keeper.now())
}

/// Takes the step an act in hand needs. Planned again on the act as it stands now: its execution may have ended after
/// the list of due acts was read.
async fn take(engine: &Arc<Engine>, act_id: ActId) -> Result<(), Refusal> {
    let act = engine.reload(act_id).await?;
    let steps = plan_for(engine, std::slice::from_ref(&act), &HashSet::new());
    match steps.first() {
        None | Some(Step::Leave(_)) => Ok(()),
        Some(Step::Expire(_)) => engine.expire_if_due(act).await.map(drop),
        Some(Step::TakeOver(_)) => {
            let text = "the process that owned the call ended before it wrote an outcome".to_owned();
            let act = record(engine, act.act_id, &News::OwnerDead(text)).await?;
            look_up(engine, act).await
        }
        Some(Step::LookUp(_)) => look_up(engine, act).await,
        Some(Step::Audit(_)) => audit(engine, act).await,
    }
}

/// Asks the counterparty, and writes down what it said.
async fn look_up(engine: &Arc<Engine>, act: Act) -> Result<(), Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(());
    };
    match ask(engine, &act, &execution.offer.frozen, &execution.claim).await? {
        Some(news) => record(engine, act.act_id, &news).await.map(drop),
        None => Ok(()),
    }
}

/// Asks the counterparty once more about an act that was closed because nobody found it.
async fn audit(engine: &Arc<Engine>, act: Act) -> Result<(), Refusal> {
    let Some((offer, claim)) = act.closed().and_then(|c| c.offer.as_ref().zip(c.claim.as_ref())) else {
        return Ok(());
    };
    let Some(news) = ask(engine, &act, &offer.frozen, claim).await? else {
        return Ok(());
    };
    if wilco_core::settle::contradicts(&act, &news) {
        return record(engine, act.act_id, &news).await.map(drop);
    }
    let contract = engine.contract_for(&act, &offer.frozen);
    let before = act.clone();
    engine
        .write(move |now| {
            Ok(wilco_core::settle::audited(&before, &contract, now)
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
        place = slot.place_for_claimed() => place,
        () = engine.stopping().cancelled() => return Ok(None),
    };
    engine.stats.lookups.fetch_add(1, Ordering::Relaxed);
    let asked_at = engine.keeper.now();
    let found = slot.adapter.lookup(act.act_id, frozen, claim.claimed_at).await;
    slot.heard(match &found {
        Found::Unknown(text) => Some(text.clone()),
        _ => None,
    });
    Ok(Some(match found {
        Found::Executed(report) => News::Executed(executed(report)),
        Found::Accepted(report) => News::Accepted(executed(report)),
        Found::Rejected(text) => News::NotDone { why: "ERR", text },
        Found::Exists(text) => News::LookupExists(text),
        Found::Absent(text) => News::LookupAbsent { asked_at, text },
        Found::Unknown(text) => News::LookupUnknown(text),
    }))
}
