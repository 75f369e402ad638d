//! What a git target does on good days, and what it refuses by name.

use wilco_adapter::kit::permit;
use wilco_adapter::{Adapter, Found, Outcome, Ready, ResolveError};
use wilco_core::Clock;

use crate::support::*;

#[tokio::test]
async fn a_version_is_stated_as_its_commit_and_brought_in_once() {
    let scene = GitScene::new();
    scene.hook(
        "pre-receive",
        "cat > /dev/null; echo \"$GIT_PUSH_OPTION_0\" > option",
    );
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let (v1, v2) = (scene.commit("v1"), scene.commit("v2"));
    assert_eq!(frozen.value("ver"), Some("v2"));
    assert_eq!(frozen.value("prev"), Some("v1"));
    assert_eq!(frozen.value("win"), Some("20261002T0800-1200"));
    assert_eq!(extra(&frozen, "x_commit"), v2);
    assert_eq!(extra(&frozen, "x_target"), "api-prod");
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (v1, 0, 0),
        "prepare moves nothing"
    );

    let report = executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.live(), v2);
    assert_eq!(scene.moves(), 1);
    for (slot, is) in [
        ("env", "PROD"),
        ("ver", "v2"),
        ("prev", "v1"),
        ("x_commit", v2.as_str()),
    ] {
        assert_eq!(value(&report, slot), is, "{slot}");
    }
    assert_eq!(found(scene.lookup(&job, &frozen).await), report);

    let record = format!("refs/wilco/{}", job.act_id);
    assert_eq!(scene.records(), std::slice::from_ref(&record));
    let text = git(&scene.remote(), &["cat-file", "tag", &record]);
    assert!(text.contains("\"ver\":\"v2\"") && text.contains(&v2), "{text}");
    let option = std::fs::read_to_string(scene.remote().join("option")).expect("the hook has run");
    assert_eq!(option.trim(), format!("wilco={}", job.act_id));
}

#[tokio::test]
async fn a_remote_that_takes_no_push_options_gets_none() {
    let scene = GitScene::new();
    git(
        &scene.remote(),
        &["config", "receive.advertisePushOptions", "false"],
    );
    scene.deployed("v2").await;
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
}

#[tokio::test]
async fn the_same_bytes_again_are_one_effect_also_after_the_branch_was_moved_back() {
    let scene = GitScene::new();
    let (job, frozen) = scene.deployed("v2").await;
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.moves(), 1);
    // A - B - A: the branch is where it was when this was stated, and the lease alone would let it through.
    scene.move_by_hand("v1");
    let report = executed(scene.execute(&job, &frozen).await);
    assert!(report.status.contains("moved on"), "{}", report.status);
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v1"), 2));
}

#[tokio::test]
async fn another_daemon_carries_out_what_this_one_prepared() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let other = scene.elsewhere("other-work");
    executed(
        other
            .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
            .await,
    );
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
    found(
        scene
            .elsewhere("third-work")
            .lookup(job.act_id, &frozen, job.now, None)
            .await,
    );
}

#[tokio::test]
async fn names_mean_what_the_source_says() {
    let scene = GitScene::new();
    let v3 = scene.commit("v3");
    let by_commit = scene.prepare(&scene.deploy(&v3[..9])).await;
    assert_eq!(
        (by_commit.value("ver"), extra(&by_commit, "x_commit")),
        (Some(&v3[..9]), v3.as_str())
    );
    let by_branch = scene.prepare(&scene.deploy("main")).await;
    assert_eq!(extra(&by_branch, "x_commit"), v3);
    // What runs now is called what the sender calls it, if that is true.
    let v1 = scene.commit("v1");
    let called = scene.prepare(&with(scene.deploy("v2"), "prev", &v1[..8])).await;
    assert_eq!(called.value("prev"), Some(&v1[..8]));
    let wrongly = scene.prepare(&with(scene.deploy("v2"), "prev", "v3")).await;
    assert_eq!(wrongly.value("prev"), Some("v1"));

    let (why, text) = refusal(&scene.adapter, &scene.deploy("v9")).await;
    assert!(why == "NOCTX" && text.contains("v9"), "{why} {text}");
    git(&scene.source(), &["branch", "v2", "v3"]);
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v2")).await;
    assert!(
        why == "SCOPE" && text.contains("a tag") && text.contains("a branch"),
        "{why} {text}"
    );
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v1")).await;
    assert!(why == "CONFLICT" && text.contains("already"), "{why} {text}");
    for bad in ["../v1", "--upload-pack=x", "v1^", "v1:app", "a b", "none"] {
        assert_eq!(
            refusal(&scene.adapter, &scene.deploy(bad)).await.0,
            "SCOPE",
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_commit_that_no_branch_or_tag_of_the_source_holds_is_not_deployed() {
    let scene = GitScene::new();
    scene.deployed("v2").await;
    // Known here because the remote had it once, and gone from the source.
    git(&scene.source(), &["checkout", "--quiet", "--orphan", "stray"]);
    git(&scene.source(), &["commit", "--quiet", "-m", "stray"]);
    let stray = git(&scene.source(), &["rev-parse", "HEAD"]);
    scene.prepare(&scene.deploy(&stray[..10])).await;
    git(&scene.source(), &["checkout", "--quiet", "main"]);
    git(&scene.source(), &["branch", "--quiet", "-D", "stray"]);
    assert_eq!(
        refusal(&scene.adapter, &scene.deploy(&stray[..10])).await.0,
        "NOCTX"
    );
}

#[tokio::test]
async fn what_nobody_configured_is_refused_by_name() {
    let scene = GitScene::new();
    let (why, text) = refusal(&scene.adapter, &with(scene.deploy("v2"), "env", "STAGE")).await;
    assert!(
        why == "SCOPE" && text.contains("svc:api") && text.contains("STAGE"),
        "{why} {text}"
    );
    let mut job = scene.deploy("v2");
    job.item = "svc:web".to_owned();
    assert_eq!(refusal(&scene.adapter, &job).await.0, "SCOPE");
    let mut job = scene.deploy("v2");
    job.ask = "MIGRATE".to_owned();
    assert_eq!(refusal(&scene.adapter, &job).await.0, "NOCAP");
    for slot in ["env", "ver", "apref"] {
        let (why, text) = refusal(&scene.adapter, &with(scene.deploy("v2"), slot, "")).await;
        assert!(why == "NOCTX" && text.contains(slot), "{why} {text}");
    }
}

#[tokio::test]
async fn a_branch_that_is_not_there_is_waited_for() {
    let scene = GitScene::new();
    git(&scene.remote(), &["update-ref", "-d", "refs/heads/prod"]);
    for said in [
        scene
            .adapter_resolve("v2")
            .await
            .expect_err("it is not there")
            .to_string(),
        scene.adapter.health().await.expect_err("it is not there"),
    ] {
        let named = ["api-prod", "branch", "refs/heads/prod", "create_branch"];
        assert!(named.iter().all(|n| said.contains(n)), "{said}");
    }
    assert!(matches!(
        scene.adapter_resolve("v2").await,
        Err(ResolveError::Passing(_))
    ));
    assert!(git(&scene.remote(), &["for-each-ref"]).is_empty());
}

#[tokio::test]
async fn the_first_deployment_makes_the_branch_where_it_may() {
    let scene = GitScene::with("", "create_branch = true");
    git(&scene.remote(), &["update-ref", "-d", "refs/heads/prod"]);
    scene.adapter.health().await.expect("it may be made");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    assert_eq!(frozen.value("prev"), Some("none"));
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.live(), scene.commit("v2"));
    let (why, text) = refusal(&scene.adapter, &undo(scene.clock.now(), &job, &frozen)).await;
    assert!(
        why == "NOCTX" && text.contains("nothing ran before"),
        "{why} {text}"
    );
}

#[tokio::test]
async fn a_rollback_goes_back_along_the_remotes_own_records() {
    let scene = GitScene::new();
    let (why, text) = refusal(&scene.adapter, &rollback(scene.clock.now())).await;
    assert!(why == "NOCTX" && text.contains("no record"), "{why} {text}");
    scene.deployed("v2").await;
    scene.clock.pass(1);
    scene.deployed("v3").await;
    scene.clock.pass(1);

    // Another machine, which knows nothing but what the remote shows.
    let other = scene.elsewhere("other-work");
    let job = rollback(scene.clock.now());
    let frozen = prepare(&other, &job).await;
    assert_eq!(frozen.value("prev"), Some("v2"));
    assert_eq!(
        (extra(&frozen, "x_from"), extra(&frozen, "x_commit")),
        ("v3", scene.commit("v2").as_str())
    );
    let report = executed(
        other
            .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
            .await,
    );
    assert_eq!((value(&report, "prev"), value(&report, "x_from")), ("v2", "v3"));
    assert_eq!(scene.live(), scene.commit("v2"));

    // Called as the sender calls it, if that is what comes back.
    scene.clock.pass(1);
    let v1 = &scene.commit("v1")[..10];
    let called = prepare(&other, &with(rollback(scene.clock.now()), "prev", v1)).await;
    assert_eq!(called.value("prev"), Some(v1));

    // Once more: not forward again to what was rolled back, but further back.
    scene.clock.pass(1);
    let frozen = prepare(&other, &rollback(scene.clock.now())).await;
    assert_eq!(
        (frozen.value("prev"), extra(&frozen, "x_from")),
        (Some("v1"), "v2")
    );
}

#[tokio::test]
async fn an_undo_brings_back_what_ran_before_and_only_from_what_it_reverses() {
    let scene = GitScene::new();
    let (job, frozen) = scene.deployed("v2").await;
    scene.clock.pass(1);
    let back = undo(scene.clock.now(), &job, &frozen);
    let undoing = scene.prepare(&back).await;
    let stated: Vec<(&str, &str)> = undoing
        .values
        .iter()
        .map(|v| (v.slot.as_str(), v.value.as_str()))
        .collect();
    assert_eq!(
        stated,
        [
            ("env", "PROD"),
            ("ver", "v1"),
            ("prev", "v2"),
            ("apref", "CAB-0931")
        ]
    );

    // Somebody else deploys in between: the undo is not what it was any more.
    scene.deployed("v3").await;
    assert!(matches!(
        scene.execute(&back, &undoing).await,
        Outcome::NotSent(_)
    ));
    let (why, text) = refusal(&scene.adapter, &undo(scene.clock.now(), &job, &frozen)).await;
    assert!(
        why == "CONFLICT" && text.contains("replace something else"),
        "{why} {text}"
    );

    scene.move_by_hand("v2");
    let back = undo(scene.clock.now(), &job, &frozen);
    let undoing = scene.prepare(&back).await;
    let report = executed(scene.execute(&back, &undoing).await);
    assert_eq!((value(&report, "ver"), value(&report, "prev")), ("v1", "v2"));
    assert_eq!(scene.live(), scene.commit("v1"));
}

#[tokio::test]
async fn a_tag_that_moves_between_statement_and_confirmation_closes_the_act() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    assert_eq!(scene.adapter.ready(job.act_id, &frozen).await, Ready::Yes);
    git(&scene.source(), &["tag", "--force", "v2", "v3"]);
    match scene.adapter.ready(job.act_id, &frozen).await {
        Ready::Refused { text } => assert!(
            text.contains("v2") && text.contains(&scene.commit("v3")),
            "{text}"
        ),
        other => panic!("{other:?}"),
    }
    // A branch may go on: which commit is meant was settled by the statement.
    let job = scene.deploy("main");
    let frozen = scene.prepare(&job).await;
    git(
        &scene.source(),
        &["commit", "--quiet", "--allow-empty", "-m", "more"],
    );
    assert_eq!(scene.adapter.ready(job.act_id, &frozen).await, Ready::Yes);
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.live(), scene.commit("v3"));
}

#[tokio::test]
async fn a_target_that_was_configured_anew_is_not_mistaken_for_the_stated_one() {
    let scene = GitScene::new();
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let mut config = scene.config.clone();
    if let Some(adapter_deploy::TargetConfig::Git(git)) = config.targets.get_mut("api-prod") {
        git.branch = "other".to_owned();
    }
    let other = adapter(&config, &scene.clock);
    let outcome = other
        .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
        .await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(matches!(
        other.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Unknown(_)
    ));
}

#[tokio::test]
async fn what_the_source_or_the_remote_cannot_show_passes() {
    let scene = GitScene::new();
    std::fs::rename(scene.source(), scene.temp.0.join("away")).expect("moved");
    assert!(matches!(
        scene.adapter.resolve(&scene.deploy("v2")).await,
        Err(ResolveError::Passing(_))
    ));
    std::fs::rename(scene.temp.0.join("away"), scene.source()).expect("moved");
    std::fs::rename(scene.remote(), scene.temp.0.join("away")).expect("moved");
    assert!(matches!(
        scene.adapter.resolve(&scene.deploy("v2")).await,
        Err(ResolveError::Passing(_))
    ));
    assert!(
        scene
            .adapter
            .health()
            .await
            .is_err_and(|e| e.contains("api-prod"))
    );
}

#[tokio::test]
async fn a_remote_that_cannot_take_both_refs_or_none_is_not_prepared_for() {
    let scene = GitScene::new();
    git(&scene.remote(), &["config", "receive.advertiseAtomic", "false"]);
    match scene.adapter.resolve(&scene.deploy("v2")).await {
        Err(ResolveError::Passing(text)) => {
            assert!(text.contains("api-prod") && text.contains("atomic"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_target_that_is_down_does_not_stop_the_others() {
    let scene = GitScene::with(
        "[targets.web-prod]\nkind = \"git\"\nservice = \"web\"\nenv = \"PROD\"\nremote = \"nowhere.git\"\nbranch = \"prod\"",
        "",
    );
    assert_eq!(scene.adapter.health().await, Ok(()));
    let mut job = scene.deploy("v2");
    job.item = "svc:web".to_owned();
    assert!(
        matches!(scene.adapter.resolve(&job).await, Err(ResolveError::Passing(t)) if t.contains("web-prod"))
    );
    scene.deployed("v2").await;
    std::fs::rename(scene.remote(), scene.temp.0.join("away")).expect("moved");
    let down = scene.adapter.health().await.expect_err("nothing answers");
    assert!(down.contains("api-prod") && down.contains("web-prod"), "{down}");
}
