//! Which folder it is: gone, not mounted, replaced, or never there. What is not in another folder proves nothing.

use std::fs;

use wilco_adapter::{Adapter, Found, Outcome, Ready};

use crate::support::*;

fn not_sent(outcome: Outcome) -> String {
    match outcome {
        Outcome::NotSent(text) => text,
        other => panic!("it was not kept back: {other:?}"),
    }
}

fn unknown(found: Found) -> String {
    match found {
        Found::Unknown(text) => text,
        other => panic!("nobody can know: {other:?}"),
    }
}

#[tokio::test]
async fn a_folder_that_is_gone_proves_nothing() {
    let scene = FolderScene::new();
    let (job, frozen) = scene.deployed("v1").await;
    let second = scene.deploy("v2");
    let next = scene.prepare(&second).await;
    fs::rename(scene.live(), scene.temp.0.join("away")).expect("moved");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    not_sent(scene.execute(&second, &next).await);
    fs::create_dir_all(scene.live()).expect("an empty mount point");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_never_made() {
    let scene = FolderScene::new();
    fs::remove_dir(scene.live()).expect("removed");
    let text = put_off(&scene.adapter, &scene.deploy("v1")).await;
    assert!(
        text.contains("api-prod") && text.contains("mount it or create it"),
        "{text}"
    );
    let text = scene.adapter.health().await.expect_err("its only folder is gone");
    assert!(text.contains("api-prod") && text.contains("folder"), "{text}");
    assert!(!scene.live().exists());
    // Made by hand it is a new one, and says so.
    fs::create_dir(scene.live()).expect("made");
    scene.adapter.health().await.expect("an empty folder is well");
    let job = scene.deploy("v1");
    let stated = resolved(&scene.adapter, &job).await;
    assert!(
        stated.notes.iter().any(|n| n.contains("first deployment")),
        "{:?}",
        stated.notes
    );
    scene.deployed("v1").await;
    let stated = resolved(&scene.adapter, &scene.deploy("v2")).await;
    assert!(
        !stated.notes.iter().any(|n| n.contains("first deployment")),
        "{:?}",
        stated.notes
    );
}

#[tokio::test]
async fn what_an_empty_mount_point_does_not_have_proves_nothing_about_what_is_mounted_there() {
    let scene = FolderScene::new();
    let (job, frozen) = scene.deployed("v1").await;
    let second = scene.deploy("v2");
    let next = scene.prepare(&second).await;
    let away = scene.temp.0.join("away");
    fs::rename(scene.live(), &away).expect("unmounted");
    fs::create_dir(scene.live()).expect("the mount point");
    // This daemon has known another folder here: it lays out nothing, and says so.
    let text = put_off(&scene.adapter, &scene.deploy("v3")).await;
    assert!(text.contains("mount that one"), "{text}");
    assert!(scene.adapter.health().await.is_err());
    assert_eq!(fs::read_dir(scene.live()).expect("it is there").count(), 0);
    // Another one has not, and takes it for new. Then it has acts/ and releases/, and an id of its own.
    let mut config = scene.config.clone();
    config.work = scene.temp.0.join("other-work");
    let other = adapter(&config, &scene.clock);
    let third = scene.deploy("v3");
    let into_nowhere = prepare(&other, &third).await;
    assert!(scene.live().join("acts").is_dir());
    for (job, frozen) in [(&job, &frozen), (&second, &next)] {
        let text = unknown(scene.lookup(job, frozen).await);
        assert!(text.contains("another folder"), "{text}");
        assert!(matches!(
            scene.adapter.ready(job.act_id, frozen).await,
            Ready::Unknown(_)
        ));
        not_sent(scene.execute(job, frozen).await);
    }
    assert!(
        !scene.live().join("wilco.lock").exists(),
        "nothing is made in a strange folder"
    );
    // And mounted again, all is as it was.
    fs::remove_dir_all(scene.live()).expect("removed");
    fs::rename(&away, scene.live()).expect("mounted");
    found(scene.lookup(&job, &frozen).await);
    assert!(matches!(scene.lookup(&second, &next).await, Found::Absent(_)));
    unknown(scene.lookup(&third, &into_nowhere).await);
    executed(scene.execute(&second, &next).await);
    assert_eq!(scene.app(), "v2");
}

#[tokio::test]
async fn a_folder_without_its_id_is_nobodys_proof() {
    let scene = FolderScene::new();
    let (job, frozen) = scene.deployed("v1").await;
    let second = scene.deploy("v2");
    let next = scene.prepare(&second).await;
    fs::remove_file(scene.live().join("acts/.id")).expect("removed");
    unknown(scene.lookup(&job, &frozen).await);
    not_sent(scene.execute(&second, &next).await);
    put_off(&scene.adapter, &scene.deploy("v3")).await;
    fs::write(scene.live().join("acts/.id"), "x").expect("written");
    unknown(scene.lookup(&second, &next).await);
    // Replaced on purpose, by an operator who says so.
    fs::remove_file(scene.live().join("acts/.id")).expect("removed");
    fs::remove_file(scene.temp.0.join("deploy/api-prod.folder-id")).expect("removed");
    scene.deployed("v3").await;
    unknown(scene.lookup(&second, &next).await);
    // acts/ gone while current leads there: no new folder either.
    fs::remove_file(scene.temp.0.join("deploy/api-prod.folder-id")).expect("removed");
    fs::remove_dir_all(scene.live().join("acts")).expect("removed");
    assert_eq!(refusal(&scene.adapter, &scene.deploy("v1")).await.0, "NOCTX");
    assert!(!scene.live().join("acts").exists());
}

#[tokio::test]
async fn a_plan_from_before_folders_had_ids_is_carried_out_and_its_absence_proves_nothing() {
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let mut frozen = scene.prepare(&job).await;
    let id = fs::read_to_string(scene.live().join("acts/.id")).expect("it has one");
    frozen.request.body = frozen
        .request
        .body
        .replace(&format!(",\"folder_id\":\"{id}\""), "");
    assert!(!frozen.request.body.contains("folder_id"));
    unknown(scene.lookup(&job, &frozen).await);
    fs::rename(scene.live(), scene.temp.0.join("away")).expect("unmounted");
    let ready = scene.adapter.ready(job.act_id, &frozen).await;
    assert!(matches!(ready, Ready::Unknown(_)), "{ready:?}");
    fs::rename(scene.temp.0.join("away"), scene.live()).expect("mounted");
    let ready = scene.adapter.ready(job.act_id, &frozen).await;
    assert!(matches!(ready, Ready::Yes), "{ready:?}");
    executed(scene.execute(&job, &frozen).await);
    found(scene.lookup(&job, &frozen).await);
}
