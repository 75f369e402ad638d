//! Change windows: stated, waited for and kept to.

use wilco_adapter::kit::permit;
use wilco_adapter::{Adapter, Outcome, Ready};
use wilco_core::{Clock, Timestamp};

use crate::support::*;

fn at(text: &str) -> Timestamp {
    Timestamp::from_rw1(text).unwrap_or_else(|| panic!("{text} is a time"))
}

#[tokio::test]
async fn a_window_that_has_not_opened_is_waited_for() {
    let scene = FolderScene::new();
    let job = with(scene.deploy("v1"), "win", "20261002T1000-1100");
    let frozen = scene.prepare(&job).await;
    assert_eq!(
        frozen.not_after,
        at("20261002T1000Z"),
        "the kit's own end comes first"
    );
    match scene.adapter.ready(job.act_id, &frozen).await {
        Ready::NotYet { from, .. } => assert_eq!(from, at("20261002T1000Z")),
        other => panic!("{other:?}"),
    }
    // Also where nobody asked whether it is ready.
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    assert_eq!(scene.link(), "");
    scene.clock.pass(3_600);
    assert_eq!(scene.adapter.ready(job.act_id, &frozen).await, Ready::Yes);
}

#[tokio::test]
async fn a_window_ends_the_act_and_may_go_over_midnight() {
    let scene = FolderScene::with("time_zone = \"+02:00\"");
    scene.clock.pass(12 * 3_600);
    let job = with(scene.deploy("v1"), "win", "20261002T2230-0030");
    let resolved = resolved(&scene.adapter, &job).await;
    assert_eq!(resolved.cut_off, Some(at("20261002T2230Z")));
    let frozen = scene.prepare(&job).await;
    scene.clock.pass(5_400);
    let outcome = scene
        .adapter
        .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
        .await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert_eq!(scene.link(), "");
    let late = with(deploy(scene.clock.now(), "v1"), "win", "20261002T2230-0030");
    assert_eq!(refusal(&scene.adapter, &late).await.0, "EXPIRED");
}

#[tokio::test]
async fn without_a_window_the_hour_is_stated_or_it_is_refused() {
    let scene = FolderScene::new();
    let job = with(scene.deploy("v1"), "win", "");
    assert_eq!(scene.prepare(&job).await.value("win"), Some("20261002T0900-1000"));
    let strict = FolderScene::with("window = \"required\"");
    let (why, text) = refusal(&strict.adapter, &with(strict.deploy("v1"), "win", "")).await;
    assert!(why == "SCOPE" && text.contains("win"), "{why} {text}");
    let (why, text) = refusal(&strict.adapter, &with(strict.deploy("v1"), "win", "tomorrow")).await;
    assert!(why == "SCOPE" && text.contains("tomorrow"), "{why} {text}");
    // A way back needs no window.
    let (job, frozen) = {
        strict.deployed("v1").await;
        strict.deployed("v2").await
    };
    let back = strict.prepare(&undo(strict.clock.now(), &job, &frozen)).await;
    assert_eq!(back.value("win"), None);
}
