//! The counterparty itself fails, as far as the bench can make it.

use wilco_core::contract::Identity;

use super::{Cases, at};
use crate::Outcome;
use crate::kit::bench::{Effect, Fault};
use crate::kit::findings::{Stop, failed, not_applicable};
use crate::kit::judge;
use crate::kit::trial::{Prepared, Trial};

/// Every fault with the name of its case.
const FAULTS: [(Fault, &str); 11] = [
    (Fault::Refuse, "it refuses: rejected, and nothing happened"),
    (Fault::LoseRequest, "it never gets the request"),
    (Fault::LoseReply, "it acts and does not answer"),
    (Fault::Garbage, "it acts and answers garbage: unknown"),
    (Fault::Slow, "it acts and answers too late"),
    (Fault::Late, "it acts after the adapter gave up"),
    (Fault::Duplicate, "it gets the request twice"),
    (
        Fault::WrongValues,
        "it does something else: reported as done, not as meant",
    ),
    (Fault::Unfinished, "it takes the act on and finishes later"),
    (
        Fault::UnfinishedThenRefused,
        "it takes the act on and refuses later",
    ),
    (Fault::Lag, "its reads lag behind"),
];

pub(super) async fn all(cases: &mut Cases<'_, '_>) {
    let trial = cases.trial;
    for (fault, name) in FAULTS {
        let result = with(trial, fault).await;
        cases.found(name, result);
    }
}

async fn with(trial: &Trial<'_>, fault: Fault) -> Result<(), Stop> {
    if fault == Fault::Duplicate && trial.served.contract.identity == Identity::None {
        return not_applicable("identity = none: what arrives twice acts twice, whatever the adapter does");
    }
    let act = trial.prepare().await?;
    if !trial.bench.arm(fault).await {
        return not_applicable("the bench's counterparty has no such fault");
    }
    let outcome = trial.execute(&act).await?;
    if fault == Fault::WrongValues {
        wrong_values(trial, &act, &outcome).await?;
    }
    let effects = trial.aftermath(&act, &outcome, fault == Fault::Lag).await?;
    at(&format!("{outcome:?}"), expected(fault, &outcome, &effects))
}

/// What the fault must come to. That outcome and record agree has been seen to already.
fn expected(fault: Fault, outcome: &Outcome, effects: &[Effect]) -> Result<(), Stop> {
    let no_verdict = || match outcome {
        Outcome::Unknown(_) => Ok(()),
        _ => failed("nothing that can be read was answered, so the answer is Unknown"),
    };
    match fault {
        Fault::Refuse => match outcome {
            Outcome::Rejected(text) | Outcome::NotSent(text) if !text.trim().is_empty() => Ok(()),
            _ => failed("an explicit refusal is Rejected (or NotSent), in the counterparty's words"),
        },
        Fault::LoseRequest => {
            no_verdict()?;
            judge::nothing(
                effects,
                "the request was lost, and nobody but the adapter could send it again:",
            )
        }
        Fault::Garbage => {
            no_verdict()?;
            judge::one(effects, "after a reply that cannot be read").map(|_| ())
        }
        Fault::LoseReply | Fault::Slow | Fault::Late | Fault::Lag | Fault::Duplicate | Fault::Unfinished => {
            judge::one(effects, "in the end").map(|_| ())
        }
        Fault::WrongValues => Ok(()),
        Fault::UnfinishedThenRefused => judge::nothing(effects, "after it was refused in the end"),
    }
}

/// The record shows something else than was stated; if the adapter says it is done, it says that.
async fn wrong_values(trial: &Trial<'_>, act: &Prepared, outcome: &Outcome) -> Result<(), Stop> {
    let effects = trial.effects(act).await;
    let Some(effect) = effects.first() else {
        return Ok(());
    };
    let differs = |(slot, value): &&(String, String)| act.frozen.value(slot).is_some_and(|v| v != value);
    let wrong: Vec<&(String, String)> = effect.values.iter().filter(differs).collect();
    if wrong.is_empty() {
        return failed(
            "the bench armed wrong values, and the record shows what was stated: nothing was tried",
        );
    }
    if let Outcome::Executed(report) = outcome {
        judge::reported(report, effect)?;
        if let Some((slot, value)) = wrong.iter().find(|w| !report.values.contains(w)) {
            return failed(format!(
                "the record shows {slot}={value}, which was not stated, and the report leaves it out: {report:?}"
            ));
        }
    }
    Ok(())
}
