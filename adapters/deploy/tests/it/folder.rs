//! What a release folder does on good days, what it refuses, and what it never touches. The judge is the folder itself.

use std::fs;
use std::os::unix::fs::symlink;

use wilco_adapter::kit::permit;
use wilco_adapter::{Adapter, Found, Outcome, ResolveError};
use wilco_core::Clock;

use crate::support::*;

fn not_sent(outcome: Outcome) -> String {
    match outcome {
        Outcome::NotSent(text) => text,
        other => panic!("it was not kept back: {other:?}"),
    }
}

#[tokio::test]
async fn a_version_is_unpacked_at_prepare_and_switched_to_at_commit() {
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let frozen = scene.prepare(&job).await;
    assert_eq!(
        (frozen.value("ver"), frozen.value("prev")),
        (Some("v1"), Some("none"))
    );
    let digest = extra(&frozen, "x_digest")
        .strip_prefix("sha256:")
        .expect("a digest")
        .to_owned();
    let release = format!("v1-{}", &digest[..12]);
    assert!(
        scene
            .live()
            .join("releases")
            .join(&release)
            .join("lib/part")
            .is_file()
    );
    assert_eq!(
        (scene.link(), scene.app()),
        (String::new(), String::new()),
        "nothing runs yet"
    );

    let report = executed(scene.execute(&job, &frozen).await);
    assert_eq!(
        (scene.link(), scene.app()),
        (format!("acts/{}", job.act_id), "v1".to_owned())
    );
    for (slot, is) in [
        ("env", "PROD"),
        ("ver", "v1"),
        ("prev", "none"),
        ("x_digest", &format!("sha256:{digest}")),
    ] {
        assert_eq!(value(&report, slot), is, "{slot}");
    }
    assert_eq!(found(scene.lookup(&job, &frozen).await), report);

    let second = scene.deploy("v2");
    let frozen = scene.prepare(&second).await;
    assert_eq!(frozen.value("prev"), Some("v1"));
    assert_eq!(scene.app(), "v1");
    executed(scene.execute(&second, &frozen).await);
    assert_eq!(scene.app(), "v2");
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v2")).await;
    assert!(why == "CONFLICT" && text.contains("already"), "{why} {text}");
}

#[tokio::test]
async fn the_same_bytes_again_are_one_effect_also_after_the_link_was_put_back() {
    let scene = FolderScene::new();
    let (one, _) = scene.deployed("v1").await;
    let (job, frozen) = scene.deployed("v2").await;
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.link(), format!("acts/{}", job.act_id));
    // A - B - A, by hand: the link says what it said when this was stated.
    let current = scene.live().join("current");
    fs::remove_file(&current).expect("removed");
    symlink(format!("acts/{}", one.act_id), &current).expect("linked");
    let report = executed(scene.execute(&job, &frozen).await);
    assert!(report.status.contains("moved on"), "{}", report.status);
    assert_eq!(scene.app(), "v1");
    found(scene.lookup(&job, &frozen).await);
}

#[tokio::test]
async fn a_link_that_moved_since_prepare_is_left_alone() {
    let scene = FolderScene::new();
    scene.deployed("v1").await;
    let (two, three) = (scene.deploy("v2"), scene.deploy("v3"));
    let (second, third) = (scene.prepare(&two).await, scene.prepare(&three).await);
    executed(scene.execute(&two, &second).await);
    let text = not_sent(scene.execute(&three, &third).await);
    assert!(text.contains(&two.act_id.to_string()), "{text}");
    assert_eq!(scene.app(), "v2");
    assert!(matches!(scene.lookup(&three, &third).await, Found::Absent(_)));
}

#[tokio::test]
async fn two_that_race_for_one_link_are_one_deployment() {
    let scene = FolderScene::new();
    scene.deployed("v1").await;
    for _ in 0..10 {
        let (two, three) = (scene.deploy("v2"), scene.deploy("v3"));
        let (second, third) = (scene.prepare(&two).await, scene.prepare(&three).await);
        let (a, b) = tokio::join!(scene.execute(&two, &second), scene.execute(&three, &third));
        match (&a, &b) {
            (Outcome::Executed(_), Outcome::NotSent(_)) => assert_eq!(scene.app(), "v2"),
            (Outcome::NotSent(_), Outcome::Executed(_)) => assert_eq!(scene.app(), "v3"),
            both => panic!("{both:?}"),
        }
        scene.folder_artefact("v0", &[("app", "v0")]);
        scene.deployed("v0").await;
    }
}

#[tokio::test]
async fn what_was_stated_is_what_runs_or_nothing() {
    let scene = FolderScene::new();
    scene.deployed("v1").await;
    // The artefact changes after prepare: what was unpacked is what was stated.
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let digest = extra(&frozen, "x_digest").to_owned();
    let artefact = scene.folder_artefact("v2", &[("app", "tampered")]);
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.app(), "v2");
    // The same name with other contents is another release.
    let again = scene.prepare(&scene.deploy("v2")).await;
    assert_ne!(extra(&again, "x_digest"), digest);
    fs::remove_dir_all(artefact).expect("removed");

    // The unpacked release changes after prepare: nothing runs.
    let job = scene.deploy("v3");
    let frozen = scene.prepare(&job).await;
    let hex = extra(&frozen, "x_digest")[7..19].to_owned();
    let app = scene.live().join(format!("releases/v3-{hex}/app"));
    for tamper in [
        Box::new(|| fs::write(&app, "tampered")) as Box<dyn Fn() -> std::io::Result<()>>,
        Box::new(|| {
            fs::write(&app, "v3")?;
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&app, fs::Permissions::from_mode(0o755))
        }),
        Box::new(|| {
            fs::remove_file(&app)?;
            symlink("/etc/passwd", &app)
        }),
        Box::new(|| fs::remove_file(&app)),
    ] {
        tamper().unwrap_or_else(|e| panic!("{e}"));
        let text = not_sent(scene.execute(&job, &frozen).await);
        assert!(text.contains("was changed"), "{text}");
        assert_eq!(scene.app(), "v2");
    }
    // And prepare does not take it for the artefact.
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v3")).await;
    assert!(
        why == "CONFLICT" && text.contains("something else"),
        "{why} {text}"
    );
}

#[tokio::test]
async fn a_frozen_plan_is_not_bent() {
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let mut frozen = scene.prepare(&job).await;
    let other = scene.prepare(&scene.deploy("v2")).await;
    frozen.request.body = other.request.body;
    not_sent(scene.execute(&job, &frozen).await);
    frozen.request.body = "{}".to_owned();
    not_sent(scene.execute(&job, &frozen).await);
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert_eq!(scene.link(), "");
}

#[tokio::test]
async fn a_permit_that_is_late_changes_nothing() {
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let frozen = scene.prepare(&job).await;
    scene.clock.pass(4 * 3_600);
    not_sent(scene.execute(&job, &frozen).await);
    assert_eq!(scene.link(), "");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
}

#[tokio::test]
async fn a_folder_that_somebody_else_is_at_is_waited_for_and_then_left() {
    let scene = FolderScene::with_top("timeout_s = 1", "");
    let job = scene.deploy("v1");
    let frozen = scene.prepare(&job).await;
    let lock = fs::File::create(scene.live().join("wilco.lock")).expect("a lock");
    lock.lock().expect("locked");
    let text = not_sent(scene.execute(&job, &frozen).await);
    assert!(text.contains("somebody else"), "{text}");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    drop(lock);
    executed(scene.execute(&job, &frozen).await);
}

#[tokio::test]
async fn garbage_in_the_folder_is_named_and_left_alone() {
    let current = |scene: &FolderScene| scene.live().join("current");
    type Make = Box<dyn Fn(&FolderScene) -> std::io::Result<()>>;
    let cases: [(&str, Make); 5] = [
        ("no link", Box::new(move |s| fs::create_dir_all(current(s)))),
        ("no link", Box::new(move |s| fs::write(current(s), "x"))),
        ("no release", Box::new(move |s| symlink("/etc", current(s)))),
        (
            "no release",
            Box::new(move |s| symlink("releases/../../x", current(s))),
        ),
        (
            "not there",
            Box::new(move |s| symlink("releases/gone", current(s))),
        ),
    ];
    for (named, make) in cases {
        let scene = FolderScene::new();
        fs::create_dir_all(scene.live()).expect("made");
        make(&scene).unwrap_or_else(|e| panic!("{e}"));
        let (why, text) = refusal(&scene.adapter, &scene.deploy("v1")).await;
        assert!(why == "NOCTX" && text.contains(named), "{why} {text}");
    }
    let scene = FolderScene::new();
    fs::create_dir_all(scene.live()).expect("made");
    fs::write(scene.live().join("releases"), "x").expect("written");
    assert!(matches!(
        scene.adapter.resolve(&scene.deploy("v1")).await,
        Err(ResolveError::Passing(_))
    ));

    // And garbage that comes after prepare.
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let frozen = scene.prepare(&job).await;
    fs::create_dir_all(current(&scene).join("precious")).expect("made");
    not_sent(scene.execute(&job, &frozen).await);
    assert!(current(&scene).join("precious").is_dir());
}

#[tokio::test]
async fn a_rollback_goes_back_along_the_folders_own_records() {
    let scene = FolderScene::new();
    let (why, text) = refusal(&scene.adapter, &rollback(scene.clock.now())).await;
    assert!(why == "NOCTX" && text.contains("no record"), "{why} {text}");
    for version in ["v1", "v2", "v3"] {
        scene.deployed(version).await;
    }
    let job = rollback(scene.clock.now());
    let frozen = scene.prepare(&job).await;
    assert_eq!(
        (frozen.value("prev"), extra(&frozen, "x_from")),
        (Some("v2"), "v3")
    );
    let report = executed(scene.execute(&job, &frozen).await);
    assert_eq!((value(&report, "prev"), value(&report, "x_from")), ("v2", "v3"));
    assert_eq!(scene.app(), "v2");
    // Once more: further back, not forward again.
    let job = rollback(scene.clock.now());
    let frozen = scene.prepare(&job).await;
    assert_eq!(frozen.value("prev"), Some("v1"));
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.app(), "v1");
    let (why, text) = refusal(&scene.adapter, &rollback(scene.clock.now())).await;
    assert!(
        why == "NOCTX" && text.contains("nothing ran before"),
        "{why} {text}"
    );
}

#[tokio::test]
async fn a_release_that_was_changed_is_not_gone_back_to() {
    let scene = FolderScene::new();
    let (_, first) = scene.deployed("v1").await;
    scene.deployed("v2").await;
    let hex = &extra(&first, "x_digest")[7..19];
    fs::write(scene.live().join(format!("releases/v1-{hex}/app")), "changed").expect("written");
    let (why, text) = refusal(&scene.adapter, &rollback(scene.clock.now())).await;
    assert!(why == "CONFLICT" && text.contains("was changed"), "{why} {text}");
}

#[tokio::test]
async fn an_undo_brings_back_what_ran_before_and_only_from_what_it_reverses() {
    let scene = FolderScene::new();
    let (first, frozen) = scene.deployed("v1").await;
    let (why, _) = refusal(&scene.adapter, &undo(scene.clock.now(), &first, &frozen)).await;
    assert_eq!(why, "NOCTX");
    let (job, frozen) = scene.deployed("v2").await;
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
    let report = executed(scene.execute(&back, &undoing).await);
    assert_eq!((value(&report, "ver"), value(&report, "prev")), ("v1", "v2"));
    assert_eq!(scene.app(), "v1");
    let (why, text) = refusal(&scene.adapter, &undo(scene.clock.now(), &job, &frozen)).await;
    assert!(
        why == "CONFLICT" && text.contains("replace something else"),
        "{why} {text}"
    );
}

#[tokio::test]
async fn a_release_that_was_linked_by_hand_is_taken_over_and_can_be_gone_back_to() {
    let scene = FolderScene::new();
    let by_hand = scene.live().join("releases/2024-old");
    fs::create_dir_all(&by_hand).expect("made");
    fs::write(by_hand.join("app"), "old").expect("written");
    symlink(&by_hand, scene.live().join("current")).expect("linked");
    let (job, frozen) = scene.deployed("v1").await;
    assert_eq!(frozen.value("prev"), Some("2024-old"));
    let back = undo(scene.clock.now(), &job, &frozen);
    let undoing = scene.prepare(&back).await;
    executed(scene.execute(&back, &undoing).await);
    assert_eq!(scene.app(), "old");
}

#[tokio::test]
async fn artefacts_that_are_missing_or_two_are_refused_by_name() {
    let scene = FolderScene::new();
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v9")).await;
    assert!(why == "NOCTX" && text.contains("api-v9.tar.gz"), "{why} {text}");
    scene.archive_artefact("v1", b"x");
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v1")).await;
    assert!(why == "SCOPE" && text.contains("leave one"), "{why} {text}");
    assert_eq!(refusal(&scene.adapter, &scene.deploy("a/b")).await.0, "SCOPE");
}

#[tokio::test]
async fn artefacts_and_a_health_program_that_are_not_there_are_named_and_close_nothing() {
    let scene = FolderScene::new();
    let artefacts = scene.temp.0.join("artefacts");
    fs::rename(&artefacts, scene.temp.0.join("away")).expect("unmounted");
    for said in [
        put_off(&scene.adapter, &scene.deploy("v2")).await,
        scene.adapter.health().await.expect_err("they are away"),
    ] {
        assert!(said.contains("api-prod") && said.contains("artefacts:"), "{said}");
    }
    fs::create_dir(&artefacts).expect("the mount point");
    let text = put_off(&scene.adapter, &scene.deploy("v2")).await;
    assert!(text.contains("artefacts:") && text.contains("is empty"), "{text}");
    fs::remove_dir(&artefacts).expect("removed");
    fs::rename(scene.temp.0.join("away"), &artefacts).expect("mounted");
    assert_eq!(scene.adapter.health().await, Ok(()));
    scene.deployed("v2").await;

    for (program, is_there) in [
        ("/nowhere/health", false),
        ("no-such-program-of-anybody", false),
        ("/etc/passwd", false),
        ("test", true),
        ("current/health", true),
    ] {
        let scene = FolderScene::with(&format!("health = [\"{program}\"]"));
        match scene.adapter.health().await {
            Ok(()) => assert!(is_there, "{program}"),
            Err(said) => {
                let named = said.contains("api-prod") && said.contains("health:") && said.contains(program);
                assert!(!is_there && named, "{said}");
            }
        }
    }
}

#[tokio::test]
async fn how_the_service_does_is_reported_as_its_health_program_says() {
    let cases = [
        ("[\"test\", \"-f\", \"current/app\"]", Some("UP")),
        ("[\"false\"]", Some("DOWN")),
        ("[\"sh\", \"-c\", \"exit 10\"]", Some("DEGRADED")),
        (
            "[\"sh\", \"-c\", \"test $WILCO_VER = v1 && test $WILCO_ENV = PROD\"]",
            Some("UP"),
        ),
        ("[\"sleep\", \"60\"]", Some("DOWN")),
        ("[\"/nowhere/health\"]", None),
    ];
    for (health, state) in cases {
        let scene = FolderScene::with(&format!("health = {health}\nhealth_timeout_s = 1"));
        let job = scene.deploy("v1");
        let frozen = scene.prepare(&job).await;
        let report = executed(scene.execute(&job, &frozen).await);
        assert_eq!(
            value(&report, "state"),
            state.unwrap_or_default(),
            "{health}: {}",
            report.status
        );
        assert_eq!(scene.app(), "v1", "it runs, whatever its health");
    }
}

#[tokio::test]
async fn another_daemon_on_the_same_folder_finds_and_does_not_repeat() {
    let scene = FolderScene::new();
    let (job, frozen) = scene.deployed("v1").await;
    let other = FolderScene::beside(&scene);
    found(other.lookup(job.act_id, &frozen, job.now, None).await);
    executed(
        other
            .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
            .await,
    );
    assert!(other.health().await.is_ok());
}
