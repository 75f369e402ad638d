//! The check of an adapter as an operator has configured it, at a counterparty whose record nobody here can read.
//!
//! There is no judge, so it proves less than the suite: that the adapter can be reached and understood, that it states what it
//! must, and that it contradicts neither itself nor its contract. [`check`] moves nothing. [`check_acting`] carries out an
//! act that the caller has claimed, and is for those who asked for that in so many words.

use std::time::Duration;

use wilco_core::contract::LookupBy;
use wilco_core::{Frozen, Timestamp};

use super::findings::{Case, Finding, Findings, Stop, failed, not_applicable};
use super::judge;
use super::patience::patiently;
use super::props::{frozen_of, served};
use super::sane::sane;
use crate::{Adapter, Found, Job, Outcome, Permit, Ready};

/// Checks a configured adapter without moving anything: its description, its health and, with a sample job, whether that
/// resolves, is not found and can be released. What `resolve` puts in place at the counterparty is released again; where
/// the counterparty has no release, it is left there unused.
///
/// `patience` is how long one call may take. The sample's act id must be new ([`super::act_id`]).
pub async fn check(adapter: &dyn Adapter, sample: Option<Job>, patience: Duration) -> Findings {
    let description = adapter.describe();
    let mut cases = vec![
        case("describe is sane", sane(&description)),
        case("healthy", healthy(adapter, patience).await),
    ];
    match sample {
        None => cases.push(case("a sample job", not_applicable("no sample job was given"))),
        Some(job) => match resolved(adapter, &job, patience).await {
            Err(stop) => cases.push(case("the sample resolves, and names every slot", Err(stop))),
            Ok(frozen) => {
                cases.push(case("the sample resolves, and names every slot", Ok(())));
                cases.push(case(
                    "whether it may be sent is known",
                    ready(adapter, &job, &frozen, patience).await,
                ));
                let before = not_there(adapter, &job, &frozen, patience).await;
                cases.push(case("looked up before it was sent: not found", before));
                let release = patiently("release", patience, adapter.release(job.act_id, &frozen)).await;
                let after = match release {
                    Ok(()) => not_there(adapter, &job, &frozen, patience).await,
                    Err(stop) => Err(stop),
                };
                cases.push(case("released again: still not found", after));
            }
        },
    }
    Findings {
        of: format!("{}: {}", description.name, description.counterparty),
        cases,
    }
}

/// Carries out one act at the real counterparty and compares what is said of it: by the answer, by the statement, and by
/// lookups. It sends once and never again.
///
/// Takes the permit that only the caller's durable claim yields, so that the act stands in the store before anything
/// leaves. Whatever this finds, the caller settles the act by the outcome that is returned, as any other.
pub async fn check_acting(
    adapter: &dyn Adapter,
    job: &Job,
    frozen: &Frozen,
    permit: Permit,
    sent_at: Timestamp,
    patience: Duration,
) -> (Findings, Outcome) {
    let mut cases = Vec::new();
    let outcome = match patiently("execute", patience, adapter.execute(permit, frozen)).await {
        Ok(outcome) => outcome,
        Err(stop) => {
            cases.push(case("it is carried out", Err(stop)));
            Outcome::Unknown("execute did not return in time".to_owned())
        }
    };
    if cases.is_empty() {
        cases.push(case("it is carried out", carried_out(&outcome)));
    }
    cases.push(case(
        "it is reported as it was stated",
        as_stated(&outcome, frozen),
    ));
    let found = patiently("lookup", patience, adapter.lookup(job.act_id, frozen, sent_at)).await;
    cases.push(case(
        "the lookup agrees",
        found.and_then(|found| agrees(&outcome, &found, frozen)),
    ));
    let findings = Findings {
        of: format!("{}: {}/{}, for real", frozen.adapter, job.profile, job.ask),
        cases,
    };
    (findings, outcome)
}

async fn healthy(adapter: &dyn Adapter, patience: Duration) -> Result<(), Stop> {
    match patiently("health", patience, adapter.health()).await? {
        Ok(()) => Ok(()),
        Err(text) => failed(text),
    }
}

async fn resolved(adapter: &dyn Adapter, job: &Job, patience: Duration) -> Result<Frozen, Stop> {
    let description = adapter.describe();
    if served(job, &description).is_none() {
        return failed(format!("it does not serve {}/{}", job.profile, job.ask));
    }
    let resolved = match patiently("resolve", patience, adapter.resolve(job)).await? {
        Ok(resolved) => resolved,
        Err(why) => return failed(why.to_string()),
    };
    let frozen = frozen_of(job, resolved, &description);
    judge::states_all(&frozen, job)?;
    Ok(frozen)
}

async fn ready(adapter: &dyn Adapter, job: &Job, frozen: &Frozen, patience: Duration) -> Result<(), Stop> {
    match patiently("ready", patience, adapter.ready(job.act_id, frozen)).await? {
        Ready::Unknown(text) => failed(text),
        Ready::Yes | Ready::Awaiting { .. } | Ready::NotYet { .. } | Ready::Refused { .. } => Ok(()),
    }
}

async fn not_there(
    adapter: &dyn Adapter,
    job: &Job,
    frozen: &Frozen,
    patience: Duration,
) -> Result<(), Stop> {
    let asked = adapter.lookup(job.act_id, frozen, job.now);
    let found = patiently("lookup", patience, asked).await?;
    judge::found(&found, &[], &[], &frozen.contract, false)?;
    match found {
        Found::Unknown(text) if frozen.contract.absence_can_be_proved() => failed(format!(
            "the contract says that it can be looked up, and the answer is unknown: {text}"
        )),
        _ => Ok(()),
    }
}

fn carried_out(outcome: &Outcome) -> Result<(), Stop> {
    match outcome {
        Outcome::Executed(_) | Outcome::Accepted(_) => Ok(()),
        other => failed(format!("{other:?}")),
    }
}

fn as_stated(outcome: &Outcome, frozen: &Frozen) -> Result<(), Stop> {
    let Outcome::Executed(report) = outcome else {
        return not_applicable("it was not reported as executed");
    };
    for stated in frozen.values.iter().filter(|v| !frozen.carried.contains(&v.slot)) {
        match report.values.iter().find(|(slot, _)| *slot == stated.slot) {
            Some((_, value)) if *value == stated.value => {}
            reported => {
                return failed(format!(
                    "slot {} was stated as {:?} and is reported as {:?}",
                    stated.slot,
                    stated.value,
                    reported.map(|(_, value)| value)
                ));
            }
        }
    }
    Ok(())
}

fn agrees(outcome: &Outcome, found: &Found, frozen: &Frozen) -> Result<(), Stop> {
    if frozen.contract.lookup == LookupBy::None {
        return not_applicable("lookup = none: nothing is asked");
    }
    let told = matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_));
    let refused = matches!(outcome, Outcome::Rejected(_) | Outcome::NotSent(_));
    let there = matches!(found, Found::Executed(_) | Found::Accepted(_) | Found::Exists(_));
    match (outcome, found) {
        _ if told && matches!(found, Found::Rejected(_)) => {
            failed(format!("the answer was {outcome:?}, the lookup says {found:?}"))
        }
        _ if refused && there => failed(format!("the answer was {outcome:?}, the lookup says {found:?}")),
        (Outcome::Executed(report), Found::Executed(later)) if report.values != later.values => {
            failed(format!(
                "the answer shows {:?}, the lookup {:?}",
                report.values, later.values
            ))
        }
        // Absent or unknown so soon proves nothing: reads may lag for the settle window.
        _ => Ok(()),
    }
}

fn case(name: &str, result: Result<(), Stop>) -> Case {
    Case {
        name: name.to_owned(),
        finding: Finding::from(result),
    }
}
