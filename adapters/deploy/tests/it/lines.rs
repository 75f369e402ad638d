//! What is resolved and reported, as lines of the protocol: the statement passes the check against its handoff, the report the
//! check against the statement.

use std::fmt::Write;

use rw1::{Profiles, RbCheck, check_dn, check_rb};
use wilco_adapter::{Job, Report};
use wilco_core::{Clock, Frozen};

use crate::support::*;

/// The handoff of a job.
fn handoff(job: &Job, more: &str) -> String {
    let mut line = format!(
        "RW1 HO release-1 from=release to=operator item={} ask={} p=deploy rb=exec",
        job.item, job.ask
    );
    for (slot, value) in &job.slots {
        write!(line, " {slot}={value}").expect("written");
    }
    line + more
}

fn statement(profiles: &Profiles, ho: &str, job: &Job, frozen: &Frozen) -> String {
    let digest = rw1::digest(profiles, None, ho).expect("a digest");
    let mut line = format!(
        "RW1 RB operator-101 re=release-1 from=operator to=release item={} ask={} p=deploy h={digest} exp=20261002T0905Z",
        job.item, job.ask
    );
    for value in &frozen.values {
        write!(line, " {}={}", value.slot, value.value).expect("written");
    }
    for (slot, value) in &frozen.extra {
        write!(line, " {slot}={value}").expect("written");
    }
    line
}

fn report_line(job: &Job, frozen: &Frozen, report: &Report) -> String {
    let mut line = format!(
        "RW1 DN operator-102 re=release-1 from=operator to=release item={} p=deploy out=OK",
        job.item
    );
    for value in &frozen.values {
        let carried = frozen
            .carried
            .contains(&value.slot)
            .then_some(value.value.as_str());
        let seen = report
            .values
            .iter()
            .find(|(k, _)| *k == value.slot)
            .map(|(_, v)| v.as_str());
        if let Some(value_of) = seen.or(carried) {
            write!(line, " {}={value_of}", value.slot).expect("written");
        }
    }
    line
}

fn checks(job: &Job, more: &str, frozen: &Frozen, report: &Report) {
    let profiles = Profiles::builtin();
    let ho = handoff(job, more);
    let rb = statement(&profiles, &ho, job, frozen);
    let checked = check_rb(&profiles, None, &ho, &rb, RbCheck::default());
    assert!(checked.problems.is_empty(), "{ho}\n{rb}\n{:?}", checked.problems);
    let dn = report_line(job, frozen, report);
    let checked = check_dn(&profiles, None, &ho, &dn, Some(&rb), Some("20261002T0901Z"));
    assert!(checked.problems.is_empty(), "{rb}\n{dn}\n{:?}", checked.problems);
}

#[tokio::test]
async fn at_a_git_remote() {
    let scene = GitScene::new();
    let job = with(scene.deploy("v2"), "prev", "v1");
    let frozen = scene.prepare(&job).await;
    let report = executed(scene.execute(&job, &frozen).await);
    checks(&job, "", &frozen, &report);
    let back = rollback(scene.clock.now());
    let rolling = scene.prepare(&back).await;
    let report = executed(scene.execute(&back, &rolling).await);
    checks(&back, "", &rolling, &report);
    scene.clock.pass(1);
    let job = scene.deploy("v3");
    let frozen = scene.prepare(&job).await;
    executed(scene.execute(&job, &frozen).await);
    let back = undo(scene.clock.now(), &job, &frozen);
    let undoing = scene.prepare(&back).await;
    let report = executed(scene.execute(&back, &undoing).await);
    checks(&back, " ctx=operator-77", &undoing, &report);
}

#[tokio::test]
async fn at_a_release_folder() {
    let scene = FolderScene::with("health = [\"true\"]");
    scene.deployed("v1").await;
    let job = with(with(scene.deploy("v2"), "prev", "v1"), "win", "");
    let frozen = scene.prepare(&job).await;
    let report = executed(scene.execute(&job, &frozen).await);
    checks(&job, "", &frozen, &report);
    let back = rollback(scene.clock.now());
    let rolling = scene.prepare(&back).await;
    let report = executed(scene.execute(&back, &rolling).await);
    checks(&back, "", &rolling, &report);
}
