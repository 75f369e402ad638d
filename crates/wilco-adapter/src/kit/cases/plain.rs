//! Nothing is broken: what every adapter must do on a good day.

use std::sync::Arc;

use wilco_core::contract::{Identity, Reversal};

use super::{Cases, at};
use crate::kit::clock::Still;
use crate::kit::findings::{Stop, failed, not_applicable};
use crate::kit::judge;
use crate::kit::props::{job, permit, served};
use crate::kit::sane::sane;
use crate::kit::trial::Trial;
use crate::{Outcome, ResolveError, Undone};

/// How many times two daemons race.
const ROUNDS: u32 = 3;
/// How many acts are under way at once in the case that tries it.
const AT_ONCE: u32 = 3;

pub(super) async fn all(cases: &mut Cases<'_, '_>) {
    let trial = cases.trial;
    cases.found("describe is sane", describe(trial).await);
    cases.found("healthy on a good day", healthy(trial).await);
    cases.found("resolve moves nothing and names every slot", resolve(trial).await);
    cases.found(
        "released before it was sent: nothing happens",
        released(trial).await,
    );
    cases.found(
        "looked up before it was sent: not found",
        looked_up_early(trial).await,
    );
    cases.found("executed once, with exactly the frozen values", once(trial).await);
    cases.found("too late: not sent", too_late(trial).await);
    cases.found(
        "released after it was executed: it stands",
        released_after(trial).await,
    );
    cases.found("the same bytes again: no second effect", again(trial).await);
    cases.found("sent by two daemons at once: one effect", by_two(trial).await);
    cases.found("several at once do not mix", at_once(trial).await);
    cases.found(
        "reversed by an act of its own, or refused by name",
        reversed(trial).await,
    );
}

/// It is sane, and the same in every instance.
async fn describe(trial: &Trial<'_>) -> Result<(), Stop> {
    sane(&trial.description)?;
    if trial.bench.adapter().await.describe() != trial.description {
        return failed("describe() answers differently in a new instance");
    }
    Ok(())
}

/// Everything that will be executed is stated, and nothing has moved.
async fn resolve(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    judge::states_all(&act.frozen, &act.job)?;
    trial.settle().await;
    judge::nothing(&trial.effects(&act).await, "after resolve")?;
    judge::grew_by(0, act.all_before, trial.bench.effects_in_all().await)
}

/// It answers, and health says so.
async fn healthy(trial: &Trial<'_>) -> Result<(), Stop> {
    let adapter = trial.bench.adapter().await;
    match trial.patiently("health", adapter.health()).await? {
        Ok(()) => Ok(()),
        Err(text) => failed(format!("the counterparty is well, and health says {text:?}")),
    }
}

/// Taking back what resolve put in place does nothing else.
async fn released(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    trial.release(&act).await?;
    trial.settle().await;
    judge::nothing(&trial.effects(&act).await, "after release")?;
    judge::grew_by(0, act.all_before, trial.bench.effects_in_all().await)
}

/// What was never sent is never found, and looking for it does not make it happen.
async fn looked_up_early(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    for _ in 0..2 {
        let found = trial.lookup(&act).await?;
        judge::found(&found, &[], &[], &act.frozen.contract, false)?;
    }
    trial.settle().await;
    judge::nothing(&trial.effects(&act).await, "after lookups of what was never sent")?;
    judge::grew_by(0, act.all_before, trial.bench.effects_in_all().await)
}

/// One sending, one effect, and the adapter's report is the record's.
async fn once(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let outcome = trial.execute(&act).await?;
    if !matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_)) {
        return failed(format!(
            "on a good day the answer is Executed or Accepted, not {outcome:?}"
        ));
    }
    let effects = trial.aftermath(&act, &outcome, false).await?;
    let effect = judge::one(&effects, "after a good day")?;
    judge::as_frozen(&effect, &act.frozen)
}

/// The permit is asked, and its no is a no.
async fn too_late(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let late = Still::at(act.frozen.not_after);
    let outcome = trial.execute_by(&act, late).await?;
    if !matches!(outcome, Outcome::NotSent(_)) {
        return failed(format!(
            "the permit said that it is too late, and the answer is {outcome:?}"
        ));
    }
    let effects = trial.aftermath(&act, &outcome, false).await?;
    judge::nothing(&effects, "after the permit said that it is too late")
}

/// What is done stays done, whatever is tidied up afterwards.
async fn released_after(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let outcome = trial.execute(&act).await?;
    trial.release(&act).await?;
    let effects = trial.aftermath(&act, &outcome, false).await?;
    let effect = judge::one(&effects, "after release")?;
    judge::as_frozen(&effect, &act.frozen)
}

/// What the contract says about identity is what the counterparty does.
async fn again(trial: &Trial<'_>) -> Result<(), Stop> {
    if trial.served.contract.identity == Identity::None {
        return not_applicable("identity = none: what arrives twice acts twice, so it is never sent twice");
    }
    let act = trial.prepare().await?;
    for _ in 0..3 {
        let outcome = trial.execute(&act).await?;
        let effects = at("sent again", trial.aftermath(&act, &outcome, false).await)?;
        judge::one(&effects, "the same bytes sent again,")?;
    }
    Ok(())
}

/// A daemon that was thought dead sends at the same moment as the one that took over. Neither may call the act off because
/// the other was first.
async fn by_two(trial: &Trial<'_>) -> Result<(), Stop> {
    if trial.served.contract.identity == Identity::None {
        return not_applicable("identity = none: nobody takes over a sending");
    }
    for _ in 0..ROUNDS {
        let act = trial.prepare().await?;
        let (one, two) = tokio::join!(trial.execute(&act), trial.execute(&act));
        let (one, two) = (one?, two?);
        let effects = trial.aftermath(&act, &one, false).await?;
        at(
            &format!("{one:?} and {two:?}"),
            judge::one(&effects, "sent by two at once,"),
        )?;
        judge::outcome(&two, &effects, "after the settle window")?;
    }
    Ok(())
}

/// Acts under way at the same time are each judged by their own record.
async fn at_once(trial: &Trial<'_>) -> Result<(), Stop> {
    let width = AT_ONCE.min(trial.description.concurrency);
    if width < 2 {
        return not_applicable("concurrency = 1");
    }
    let all_before = trial.bench.effects_in_all().await;
    let mut acts = Vec::new();
    for _ in 0..width {
        acts.push(trial.prepare().await?);
    }
    let adapter = trial.bench.adapter().await;
    let mut running = Vec::new();
    for act in acts.clone() {
        let (adapter, clock) = (Arc::clone(&adapter), trial.bench.clock());
        running.push(tokio::spawn(async move {
            let permit = permit(&act.job, &act.frozen, clock);
            adapter.execute(permit, &act.frozen).await
        }));
    }
    let mut outcomes = Vec::new();
    for run in running {
        match trial.patiently("execute", run).await? {
            Ok(outcome) => outcomes.push(outcome),
            Err(panicked) => return failed(format!("execute: {panicked}")),
        }
    }
    trial.settle().await;
    let mut effects_of_all = 0;
    for (i, (act, outcome)) in acts.iter().zip(&outcomes).enumerate() {
        let effects = trial.effects(act).await;
        let place = format!("act {} of {width}, {outcome:?}", i + 1);
        at(
            &place,
            judge::outcome(outcome, &effects, "after all were sent at once"),
        )?;
        if let [effect] = effects.as_slice() {
            at(&place, judge::as_frozen(effect, &act.frozen))?;
        }
        let found = trial.lookup(act).await?;
        at(
            &place,
            judge::found(&found, &effects, &effects, &act.frozen.contract, false),
        )?;
        effects_of_all += effects.len();
    }
    judge::grew_by(effects_of_all, all_before, trial.bench.effects_in_all().await)?;
    if effects_of_all == 0 {
        return failed(format!(
            "none of {width} acts sent at once happened: {outcomes:?}"
        ));
    }
    Ok(())
}

/// A reversal is an act with its own readback; where none exists, it is refused by name and not by silence.
async fn reversed(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let outcome = trial.execute(&act).await?;
    let effects = trial.aftermath(&act, &outcome, false).await?;
    let effect = judge::one(&effects, "before it is reversed")?;
    let undone = Undone {
        act_id: act.job.act_id,
        ask: act.job.ask.clone(),
        frozen: act.frozen.clone(),
        executed: executed(&act.frozen, &effect.values),
        receipt: effect.receipt.clone(),
    };
    if trial.served.contract.reversal == Reversal::None {
        let exec: Vec<&str> = act.job.exec.iter().map(String::as_str).collect();
        let mut undo = job(act.job.now, &act.job.profile, "UNDO", &act.job.item, &[], &exec);
        undo.undo = Some(undone);
        let adapter = trial.bench.adapter().await;
        return match trial.patiently("resolve", adapter.resolve(&undo)).await? {
            Err(ResolveError::Refused { .. }) => Ok(()),
            other => failed(format!(
                "nothing can be taken back here, and an UNDO is answered {other:?}"
            )),
        };
    }
    let Some(undo) = trial.bench.undo(undone).await else {
        return failed("the contract has a reversal, and the bench offers no job for it");
    };
    let what = format!("{}/{}", undo.profile, undo.ask);
    if served(&undo, &trial.description).is_none() {
        return failed(format!(
            "the contract has a reversal, and describe() lists no {what}"
        ));
    }
    let undo = trial.prepare_this(undo).await?;
    let outcome = trial.execute(&undo).await?;
    if !matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_)) {
        return failed(format!(
            "on a good day an UNDO is Executed or Accepted, not {outcome:?}"
        ));
    }
    let effects = at("UNDO", trial.aftermath(&undo, &outcome, false).await)?;
    let effect = judge::one(&effects, "after the UNDO")?;
    at("UNDO", judge::as_frozen(&effect, &undo.frozen))
}

/// The values as a DN has them: the record's, and what it does not know carried from the statement.
fn executed(frozen: &wilco_core::Frozen, shown: &[(String, String)]) -> Vec<(String, String)> {
    let value_of = |slot: &str| shown.iter().find(|(s, _)| s == slot).map(|(_, v)| v.clone());
    let values = frozen.values.iter();
    values
        .map(|v| {
            (
                v.slot.clone(),
                value_of(&v.slot).unwrap_or_else(|| v.value.clone()),
            )
        })
        .collect()
}
