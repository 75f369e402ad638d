//! After: the check of a configured adapter. Without being asked to it moves nothing; asked to, it acts once; what does not
//! fit is named.

use std::time::Duration;

use wilco_adapter::Outcome;
use wilco_adapter::kit::{self, Bench, Fault, Finding, Findings};
use wilco_core::Clock;

use crate::adapter::Lie;
use crate::{ENFORCES, TillBench};

const PATIENCE: Duration = Duration::from_secs(5);

async fn checked(bench: &TillBench) -> Findings {
    let (adapter, job) = (bench.adapter().await, bench.job(1).await);
    kit::check(adapter.as_ref(), Some(job), PATIENCE).await
}

async fn acted(bench: &TillBench) -> (Findings, Outcome) {
    let (adapter, job) = (bench.adapter().await, bench.job(1).await);
    let resolved = adapter.resolve(&job).await.expect("resolved");
    let frozen = kit::frozen_of(&job, resolved, &adapter.describe());
    let permit = kit::permit(&job, &frozen, bench.clock());
    let sent_at = bench.clock().now();
    kit::check_acting(adapter.as_ref(), &job, &frozen, permit, sent_at, PATIENCE).await
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

#[tokio::test]
async fn the_acting_check_acts_once_and_holds_the_report_to_the_statement() {
    let bench = TillBench::open(ENFORCES, Lie::None).await;
    let (findings, outcome) = acted(&bench).await;
    findings.assert_sound();
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(bench.till.entries().len(), 1);

    let bench = TillBench::open(ENFORCES, Lie::None).await;
    bench.till.arm(Fault::WrongValues);
    assert_eq!(
        failed(&acted(&bench).await.0),
        ["it is reported as it was stated"]
    );

    let bench = TillBench::open(ENFORCES, Lie::None).await;
    bench.till.arm(Fault::Refuse);
    assert_eq!(failed(&acted(&bench).await.0), ["it is carried out"]);

    let bench = TillBench::open(ENFORCES, Lie::CallsTimeoutsRejected).await;
    bench.till.arm(Fault::LoseReply);
    let findings = acted(&bench).await.0;
    assert_eq!(failed(&findings), ["it is carried out", "the lookup agrees"]);
}
