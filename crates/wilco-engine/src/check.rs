//! Check: tries a configured adapter at its real counterparty, and moves nothing.

use std::sync::Arc;
use std::time::Duration;

use wilco_adapter::Job;
use wilco_adapter::kit::{self, Findings};
use wilco_core::prepare::{self as core, Intake};
use wilco_core::{Reason, Refusal};

use crate::api::{Caller, Role};
use crate::engine::Engine;
use crate::prepare::{blank, job};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn check(
    engine: &Arc<Engine>,
    caller: &Caller,
    name: &str,
    sample: Option<&str>,
) -> Result<Findings, Refusal> {
    if !caller.has(Role::Operator) {
        let text = "checking an adapter takes the role operator";
        return Err(Refusal::new(Reason::NotYours, text));
    }
    let slot = engine.slot_named(name).ok_or_else(|| {
        let there: Vec<String> = engine
            .adapters()
            .into_iter()
            .map(|a| a.description.name)
            .collect();
        Refusal::malformed(
            "name",
            format!("name: no such adapter; there are {}", there.join(", ")),
        )
    })?;
    let job = sample.map(|line| sample_job(engine, caller, line)).transpose()?;
    let _place = slot.place().await?;
    Ok(kit::check(slot.adapter.as_ref(), job, PATIENCE).await)
}

/// The job of a handoff that is only looked at: nothing of it is stored, and no sender has to be spoken for.
fn sample_job(engine: &Engine, caller: &Caller, line: &str) -> Result<Job, Refusal> {
    match core::intake(&engine.profiles, line, &|_| true, &engine.config.agents)? {
        Intake::Take(handoff) if handoff.ask == "UNDO" => {
            let text = "ho: an UNDO needs the act it reverses; give another ask of this adapter";
            Err(Refusal::malformed("ho", text))
        }
        Intake::Take(handoff) => {
            let act = blank(engine, caller, &handoff.sender, &handoff);
            Ok(job(engine, &act, None))
        }
        Intake::Refuse { why, text, .. } => Err(Refusal::malformed(
            "ho",
            format!("ho: it would be answered with UN why={why}: {text}"),
        )),
    }
}
