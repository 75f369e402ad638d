//! The check of an adapter as an operator has configured it, at a counterparty whose record nobody here can read.
//!
//! There is no judge, so it proves less than the suite: that the adapter can be reached and understood, that it states what it
//! must, and that it contradicts neither itself nor its contract. It moves nothing: who wants to see an act carried out
//! prepares and commits one.

use std::time::Duration;

use wilco_core::Frozen;

use super::findings::{Case, Finding, Findings, Stop, failed, not_applicable};
use super::judge;
use super::patience::patiently;
use super::props::{frozen_of, served};
use super::sane::sane;
use crate::{Adapter, Found, Job, Ready};

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
    let asked = adapter.lookup(job.act_id, frozen, job.now, None);
    let found = patiently("lookup", patience, asked).await?;
    judge::found(&found, &[], &[], &frozen.contract, false)?;
    match found {
        Found::Unknown(text) if frozen.contract.absence_can_be_proved() => failed(format!(
            "the contract says that it can be looked up, and the answer is unknown: {text}"
        )),
        _ => Ok(()),
    }
}

fn case(name: &str, result: Result<(), Stop>) -> Case {
    Case {
        name: name.to_owned(),
        finding: Finding::from(result),
    }
}
