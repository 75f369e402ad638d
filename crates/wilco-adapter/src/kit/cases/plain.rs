//! Nothing is broken: what every adapter must do on a good day.

use crate::kit::findings::{Case, Stop, failed};
use crate::kit::judge;
use crate::kit::run::case;
use crate::kit::trial::Trial;
use crate::{Found, Outcome};
use wilco_core::contract::{Identity, LateSend, LookupBy};

/// Runs them all.
pub(in crate::kit) async fn all(trial: &Trial<'_>, cases: &mut Vec<Case>) {
    cases.push(case("describe is sane", describe(trial)));
    cases.push(case(
        "resolve moves nothing and names every slot",
        resolve(trial).await,
    ));
    cases.push(case(
        "executed once, with exactly the frozen values",
        once(trial).await,
    ));
}

/// The contract is consistent in itself, and says in words what data cannot.
fn describe(trial: &Trial<'_>) -> Result<(), Stop> {
    let d = &trial.description;
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if !word(&d.name) {
        return failed(format!("name {:?} is not one word", d.name));
    }
    if d.counterparty.trim().is_empty() {
        return failed("counterparty is empty: operators would not know who is meant");
    }
    if d.concurrency == 0 {
        return failed("concurrency 0 would never let an act through");
    }
    for (i, served) in d.serves.iter().enumerate() {
        let what = format!("{}/{}", served.profile, served.ask);
        let same = |s: &&crate::Served| s.profile == served.profile && s.ask == served.ask;
        if d.serves.iter().take(i).any(|s| same(&s)) {
            return failed(format!("{what} is listed twice"));
        }
        let c = &served.contract;
        if c.point_of_no_return.trim().is_empty() || c.not_found_means.trim().is_empty() {
            return failed(format!(
                "{what}: point_of_no_return and not_found_means are for operators and must not be empty"
            ));
        }
        if matches!(c.identity, Identity::Window(0)) {
            return failed(format!("{what}: an identity enforced for 0 seconds is none"));
        }
        if matches!(c.late_send, LateSend::RefusedAfter(0)) {
            return failed(format!(
                "{what}: late bytes refused after 0 seconds would be all bytes"
            ));
        }
        if c.settle_window_s > 7 * 86_400 {
            return failed(format!(
                "{what}: a settle window of more than a week helps nobody"
            ));
        }
    }
    if *d != trial.description {
        return failed("describe() answers differently when asked twice");
    }
    Ok(())
}

/// Everything that will be executed is stated, and nothing has moved.
async fn resolve(trial: &Trial<'_>) -> Result<(), Stop> {
    let before = trial.bench.effects_in_all().await;
    let act = trial.prepare().await?;
    let stated: Vec<&str> = act.frozen.values.iter().map(|v| v.slot.as_str()).collect();
    let wanted: Vec<&str> = act.job.exec.iter().map(String::as_str).collect();
    if stated != wanted {
        return failed(format!(
            "resolve yields the slots {stated:?}; the ask names {wanted:?}"
        ));
    }
    if let Some(empty) = act
        .frozen
        .values
        .iter()
        .find(|v| v.value.is_empty() || v.evidence.is_empty())
    {
        return failed(format!("slot {}: its value or its evidence is empty", empty.slot));
    }
    if let Some((key, _)) = act.frozen.extra.iter().find(|(k, _)| !k.starts_with("x_")) {
        return failed(format!("extra slot {key} does not begin with x_"));
    }
    if let Some(slot) = act.frozen.carried.iter().find(|s| !wanted.contains(&s.as_str())) {
        return failed(format!("carried slot {slot} is no execution slot of the ask"));
    }
    trial.settle().await;
    judge::nothing(&trial.effects(&act).await, "after resolve")?;
    judge::grew_by(0, before, trial.bench.effects_in_all().await)
}

/// One sending, one effect, and the adapter's report is the record's.
async fn once(trial: &Trial<'_>) -> Result<(), Stop> {
    let before = trial.bench.effects_in_all().await;
    let act = trial.prepare().await?;
    match trial.execute(&act).await? {
        Outcome::Executed(report) => {
            let effect = judge::one(&trial.effects(&act).await, "after it was executed")?;
            judge::reported(&report, &effect)?;
            judge::as_frozen(&effect, &act.frozen)?;
        }
        Outcome::Accepted(_) => {
            trial.settle().await;
            let effect = judge::one(&trial.effects(&act).await, "after it was accepted and settled")?;
            judge::as_frozen(&effect, &act.frozen)?;
        }
        other => {
            return failed(format!(
                "on a good day the answer is Executed or Accepted, not {other:?}"
            ));
        }
    }
    trial.settle().await;
    let effect = judge::one(&trial.effects(&act).await, "after the settle window")?;
    judge::grew_by(1, before, trial.bench.effects_in_all().await)?;
    if trial.served.contract.lookup != LookupBy::None {
        match trial.lookup(&act).await? {
            Found::Executed(report) => judge::reported(&report, &effect)?,
            other => return failed(format!("it stands in the record, and the lookup says {other:?}")),
        }
    }
    Ok(())
}
