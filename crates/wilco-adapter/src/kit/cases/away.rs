//! The counterparty is away, or it is long ago.

use super::Cases;
use crate::kit::findings::{Stop, failed, not_applicable};
use crate::kit::judge;
use crate::kit::props::permit;
use crate::kit::trial::{Prepared, Trial};
use crate::{Adapter, Found, Outcome, Ready, ResolveError};

/// How much later the last lookup is, in seconds: past what counterparties remember keys for.
const LONG_AFTER_S: i64 = 3 * 86_400;

pub(super) async fn all(cases: &mut Cases<'_, '_>) {
    let trial = cases.trial;
    let result = down(trial).await;
    cases.found(
        "it is down: not sent, health says so, and it comes back by itself",
        result,
    );
    // The last, because it leaves the clock days ahead.
    cases.found(
        "looked up days later: nothing happens again",
        days_later(trial).await,
    );
}

/// A key that the adapter must take for forgotten does not turn a lookup into a sending, nor an answer into a denial.
async fn days_later(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let outcome = trial.execute(&act).await?;
    let effects = trial.aftermath(&act, &outcome, false).await?;
    trial.bench.clock().pass(LONG_AFTER_S);
    for _ in 0..2 {
        let found = trial.lookup(&act).await?;
        judge::found(&found, &effects, &effects, &act.frozen.contract, false)?;
    }
    trial.settle().await;
    let later = trial.effects(&act).await;
    if later != effects {
        return failed(format!(
            "lookups changed the record from {effects:?} to {later:?}"
        ));
    }
    judge::grew_by(effects.len(), act.all_before, trial.bench.effects_in_all().await)
}

/// While it is away nothing is certain but that nothing was sent. The adapter is the same instance throughout.
async fn down(trial: &Trial<'_>) -> Result<(), Stop> {
    let act = trial.prepare().await?;
    let other = trial.job().await;
    let adapter = trial.bench.adapter().await;
    if !trial.bench.stop().await {
        return not_applicable("the bench's counterparty cannot be taken away");
    }
    let meanwhile = while_down(trial, adapter.as_ref(), &act, &other).await;
    trial.bench.start().await;
    let outcome = meanwhile?;

    judge::outcome(&outcome, &trial.effects(&act).await, "once it is back")?;
    if let Err(text) = trial.patiently("health", adapter.health()).await? {
        return failed(format!(
            "it is back, and the same instance's health still says {text:?}"
        ));
    }
    let permit = permit(&act.job, &act.frozen, trial.bench.clock());
    let outcome = trial
        .patiently("execute", adapter.execute(permit, &act.frozen))
        .await?;
    if !matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_)) {
        return failed(format!(
            "it is back, and the same instance's execute says {outcome:?}"
        ));
    }
    let effects = trial.aftermath(&act, &outcome, false).await?;
    judge::one(&effects, "once it is back").map(|_| ())
}

async fn while_down(
    trial: &Trial<'_>,
    adapter: &dyn Adapter,
    act: &Prepared,
    other: &crate::Job,
) -> Result<Outcome, Stop> {
    let (id, frozen) = (act.job.act_id, &act.frozen);
    match trial.patiently("health", adapter.health()).await? {
        Err(text) if !text.trim().is_empty() => {}
        said => return failed(format!("it is down, and health says {said:?}")),
    }
    match trial.patiently("ready", adapter.ready(id, frozen)).await? {
        // Some need not ask: then sending finds out.
        Ready::Unknown(_) | Ready::Yes => {}
        said => return failed(format!("it is down, and ready says {said:?}")),
    }
    match trial.patiently("resolve", adapter.resolve(other)).await? {
        Err(ResolveError::Passing(_)) | Ok(_) => {}
        Err(refused) => {
            return failed(format!(
                "it is down, which is passing, and resolve refuses for good: {refused}"
            ));
        }
    }
    let permit = permit(&act.job, frozen, trial.bench.clock());
    let outcome = trial
        .patiently("execute", adapter.execute(permit, frozen))
        .await?;
    if !matches!(outcome, Outcome::NotSent(_)) {
        return failed(format!(
            "it is down, nothing can be sent, and execute says {outcome:?}"
        ));
    }
    let found = trial
        .patiently("lookup", adapter.lookup(id, frozen, act.first_sent_at, None))
        .await?;
    if !matches!(found, Found::Unknown(_)) {
        return failed(format!(
            "it is down, nothing can be heard, and a lookup says {found:?}"
        ));
    }
    Ok(outcome)
}
