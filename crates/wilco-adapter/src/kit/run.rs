//! The suite, from the first case to the last.

use super::bench::Bench;
use super::cases;
use super::findings::{Case, Finding, Findings, Stop};
use super::trial::Trial;

/// Tries an adapter on its bench: every case its contract allows, one after the other. Takes about as long as the
/// adapter's time limit times the turns of its conversation.
pub async fn run(bench: &dyn Bench) -> Findings {
    let trial = match Trial::of(bench).await {
        Ok(trial) => trial,
        Err(stop) => {
            return Findings {
                of: bench.adapter().await.describe().name,
                cases: vec![case("describe is sane", Err(stop))],
            };
        }
    };
    let mut cases = Vec::new();
    cases::plain::all(&trial, &mut cases).await;
    Findings {
        of: format!(
            "{}: {}/{}, {}",
            trial.description.name,
            trial.served.profile,
            trial.served.ask,
            trial.served.contract.guarantee().as_str()
        ),
        cases,
    }
}

/// A case and what became of it.
pub(super) fn case(name: impl Into<String>, result: Result<(), Stop>) -> Case {
    Case {
        name: name.into(),
        finding: Finding::from(result),
    }
}
