//! The cases. Each is a story: prepared as the daemon prepares, broken at one place, judged by the record.

mod away;
mod counterparty;
mod looking;
mod plain;
mod sending;

use super::findings::{Case, Finding, Stop};
use super::trial::Trial;

/// Runs them all, in order.
pub(super) async fn all(trial: &Trial<'_>) -> Vec<Case> {
    let mut cases = Cases {
        trial,
        done: Vec::new(),
    };
    plain::all(&mut cases).await;
    sending::all(&mut cases).await;
    looking::all(&mut cases).await;
    counterparty::all(&mut cases).await;
    away::all(&mut cases).await;
    cases.done
}

/// What is being tried, and what was found so far.
struct Cases<'t, 'a> {
    trial: &'t Trial<'a>,
    done: Vec<Case>,
}

impl Cases<'_, '_> {
    /// Writes down what became of a case, and mends the lines for the next.
    fn found(&mut self, name: &str, result: Result<(), Stop>) {
        self.done.push(Case {
            name: name.to_owned(),
            finding: Finding::from(result),
        });
        self.trial.mend();
    }
}

/// The same, said to have happened at a place.
fn at<T>(place: &str, result: Result<T, Stop>) -> Result<T, Stop> {
    result.map_err(|stop| match stop {
        Stop::Failed(why) => Stop::Failed(format!("{place}: {why}")),
        other => other,
    })
}
