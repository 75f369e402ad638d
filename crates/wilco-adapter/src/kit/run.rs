//! The suite, from the first case to the last.

use super::bench::Bench;
use super::cases;
use super::findings::{Case, Finding, Findings};
use super::trial::Trial;

/// Tries an adapter on its bench: every case its contract allows, one after the other. Takes about as long as the
/// adapter's time limit times twice the turns of its conversation.
pub async fn run(bench: &dyn Bench) -> Findings {
    match Trial::of(bench).await {
        Ok(trial) => {
            let served = &trial.served;
            let class = served.contract.guarantee().as_str();
            Findings {
                of: format!(
                    "{}: {}/{}, {class}",
                    trial.description.name, served.profile, served.ask
                ),
                cases: cases::all(&trial).await,
            }
        }
        Err(stop) => Findings {
            of: bench.adapter().await.describe().name,
            cases: vec![Case {
                name: "it serves the bench's jobs".to_owned(),
                finding: Finding::from(Err(stop)),
            }],
        },
    }
}
