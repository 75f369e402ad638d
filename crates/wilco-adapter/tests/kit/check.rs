//! After: the check of a configured adapter. It moves nothing, and names what does not fit.

use std::time::Duration;

use wilco_adapter::kit::{self, Bench, Finding, Findings};

use crate::adapter::Lie;
use crate::{ENFORCES, TillBench};

const PATIENCE: Duration = Duration::from_secs(5);

async fn checked(bench: &TillBench) -> Findings {
    let (adapter, job) = (bench.adapter().await, bench.job(1).await);
    kit::check(adapter.as_ref(), Some(job), PATIENCE).await
}

fn failed(findings: &Findings) -> Vec<&str> {
    findings.failed().map(|c| c.name.as_str()).collect()
}

#[tokio::test]
async fn the_harmless_check_moves_nothing() {
    let bench = TillBench::open(ENFORCES, Lie::None).await;
    checked(&bench).await.assert_sound();
    assert!(bench.till.entries().is_empty());

    let adapter = bench.adapter().await;
    let findings = kit::check(adapter.as_ref(), None, PATIENCE).await;
    let sample = findings.finding("a sample job");
    assert!(matches!(sample, Some(Finding::NotApplicable(_))), "{findings}");
}

#[tokio::test]
async fn what_the_harmless_check_can_see_it_names() {
    let bench = TillBench::open(ENFORCES, Lie::SaysNothingForOperators).await;
    assert_eq!(failed(&checked(&bench).await), ["describe is sane"]);

    let bench = TillBench::open(ENFORCES, Lie::ForgetsWhatItFinds).await;
    assert_eq!(
        failed(&checked(&bench).await),
        [
            "looked up before it was sent: not found",
            "released again: still not found"
        ]
    );

    let bench = TillBench::open(ENFORCES, Lie::None).await;
    bench.stop().await;
    assert!(failed(&checked(&bench).await).contains(&"healthy"));

    let bench = TillBench::open(ENFORCES, Lie::None).await;
    let adapter = bench.adapter().await;
    let mut job = bench.job(1).await;
    job.ask = "SEND".to_owned();
    let findings = kit::check(adapter.as_ref(), Some(job), PATIENCE).await;
    assert_eq!(failed(&findings), ["the sample resolves, and names every slot"]);
}
