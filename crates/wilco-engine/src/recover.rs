//! Recovery: carries out the plan for acts whose time has come, at start and every few seconds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wilco_adapter::Found;
use wilco_core::recovery::{Owners, Step, plan};
use wilco_core::settle::News;
use wilco_core::{Act, Reason, Refusal};

use crate::engine::Engine;
use crate::execute::{executed, record};

/// How many due acts one round takes.
const ROUND: u32 = 256;

/// Takes over what an earlier run left claimed, whether due or not.
pub(crate) async fn left_claimed(engine: &Arc<Engine>, claimed: Vec<Act>) {
    if !claimed.is_empty() {
        tracing::warn!(
            acts = claimed.len(),
            "an earlier run left acts claimed; looking them up"
        );
    }
    carry_out(engine, claimed).await;
}

/// Looks round until the daemon stops.
pub(crate) async fn forever(engine: &Arc<Engine>) {
    loop {
        tokio::select! {
            () = engine.stopping().cancelled() => return,
            () = tokio::time::sleep(engine.config.recovery_interval) => {}
        }
        let now = engine.keeper.now();
        match engine.keeper.due(now, ROUND).await {
            Ok(due) => carry_out(engine, due).await,
            Err(error) => tracing::error!(%error, "looking for acts that are due failed; trying again"),
        }
    }
}

async fn carry_out(engine: &Arc<Engine>, due: Vec<Act>) {
    if due.is_empty() {
        return;
    }
    let in_flight = engine.running.snapshot();
    let owners = Owners {
        me: &engine.owner,
        in_flight: &in_flight,
        others_are_dead: true,
    };
    let steps = plan(&due, &owners, engine.keeper.now());
    let mut work = Vec::new();
    for step in steps {
        let act_id = match &step {
            Step::Leave(_) => continue,
            Step::Expire(id) | Step::TakeOver(id) | Step::LookUp(id) => *id,
        };
        let Some(act) = due.iter().find(|a| a.act_id == act_id).cloned() else {
            continue;
        };
        let engine_ = Arc::clone(engine);
        work.push(engine.spawn(async move {
            if let Err(refusal) = take(&engine_, act, &step).await {
                tracing::warn!(act = %act_id, error = %refusal, "recovery of this act failed; trying again");
            }
        }));
    }
    for step in work {
        // A step that panicked is found due again in the next round.
        drop(step.await);
    }
}

async fn take(engine: &Arc<Engine>, act: Act, step: &Step) -> Result<(), Refusal> {
    match step {
        Step::Leave(_) => Ok(()),
        Step::Expire(_) => engine.expire_if_due(act).await.map(drop),
        Step::TakeOver(_) => {
            let text = "the process that owned the call ended before it wrote an outcome".to_owned();
            let act = record(engine, act.act_id, &News::OwnerDead(text)).await?;
            look_up(engine, act).await
        }
        Step::LookUp(_) => look_up(engine, act).await,
    }
}

/// Asks the counterparty, and writes down what it said.
async fn look_up(engine: &Arc<Engine>, act: Act) -> Result<(), Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(());
    };
    let frozen = &execution.offer.frozen;
    let Some(slot) = engine.slot_named(&frozen.adapter) else {
        return Err(Refusal::new(
            Reason::AdapterDown,
            format!("adapter {} is not configured", frozen.adapter),
        ));
    };
    // While one lookup of this act runs, the next round leaves it alone.
    let Some(_in_flight) = engine.running.enter(act.act_id) else {
        return Ok(());
    };
    let _place = slot.place().await?;
    engine.stats.lookups.fetch_add(1, Ordering::Relaxed);
    let found = slot
        .adapter
        .lookup(act.act_id, frozen, execution.claim.claimed_at)
        .await;
    slot.heard(match &found {
        Found::Unknown(text) => Some(text.clone()),
        _ => None,
    });
    let news = match found {
        Found::Executed(report) => News::Executed(executed(report)),
        Found::Accepted(report) => News::Accepted(executed(report)),
        Found::Rejected(text) => News::NotDone { why: "ERR", text },
        Found::Absent(text) => News::LookupAbsent(text),
        Found::Unknown(text) => News::LookupUnknown(text),
    };
    record(engine, act.act_id, &news).await.map(drop)
}
