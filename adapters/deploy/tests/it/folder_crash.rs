//! A daemon that dies between any two steps of a switch. Each step is done here as the adapter does it, and what follows is
//! left out; then the adapter is asked.

use std::fs;
use std::os::unix::fs::symlink;

use wilco_adapter::{Found, Job, Outcome};
use wilco_core::Frozen;

use crate::support::*;

/// The last step that was done before it died, in order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Died {
    Record,
    Next,
    Link,
    Rename,
}

async fn dead(died: Died) -> (FolderScene, Job, Frozen) {
    let scene = FolderScene::new();
    scene.deployed("v1").await;
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    let (live, act) = (scene.live(), job.act_id);
    let release = format!("../releases/v2-{}", &extra(&frozen, "x_digest")[7..19]);
    let next = live.join(format!("next.{act}"));
    fs::write(live.join(format!("acts/{act}.json")), &frozen.request.body).expect("written");
    if died >= Died::Next {
        symlink(format!("acts/{act}"), &next).expect("linked");
    }
    if died >= Died::Link {
        symlink(release, live.join(format!("acts/{act}"))).expect("linked");
    }
    if died >= Died::Rename {
        fs::rename(&next, live.join("current")).expect("renamed");
    }
    (scene, job, frozen)
}

#[tokio::test]
async fn before_it_was_begun_it_is_absent_and_may_still_be_done() {
    for died in [Died::Record, Died::Next] {
        let (scene, job, frozen) = dead(died).await;
        assert!(matches!(scene.lookup(&job, &frozen).await, Found::Absent(_)));
        assert_eq!(scene.app(), "v1");
        executed(scene.execute(&job, &frozen).await);
        assert_eq!(scene.app(), "v2");
    }
}

#[tokio::test]
async fn begun_and_not_switched_it_never_will_be() {
    let (scene, job, frozen) = dead(Died::Link).await;
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Rejected(_)));
    match scene.execute(&job, &frozen).await {
        Outcome::Rejected(text) => assert!(text.contains("not taken up again"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.app(), "v1");
    // It stands in nobody's way.
    scene.deployed("v3").await;
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Rejected(_)));
}

#[tokio::test]
async fn switched_it_is_done_whatever_else_was_not_written() {
    let (scene, job, frozen) = dead(Died::Rename).await;
    assert_eq!(value(&found(scene.lookup(&job, &frozen).await), "ver"), "v2");
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.app(), "v2");
    // The next deployment vouches for it before it moves the link on.
    scene.deployed("v3").await;
    let report = found(scene.lookup(&job, &frozen).await);
    assert!(report.status.contains("moved on"), "{}", report.status);
}

#[tokio::test]
async fn what_was_tidied_up_by_hand_is_for_a_person() {
    // Switched, nothing written, and the link put elsewhere by hand.
    let (scene, job, frozen) = dead(Died::Rename).await;
    fs::remove_file(scene.live().join("current")).expect("removed");
    let hex = &extra(&frozen, "x_digest")[7..19];
    symlink(format!("releases/v2-{hex}"), scene.live().join("current")).expect("linked");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Unknown(_)));

    // Begun, and its next link thrown away: it looks as if it had been switched.
    let (scene, job, frozen) = dead(Died::Link).await;
    fs::remove_file(scene.live().join(format!("next.{}", job.act_id))).expect("removed");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Unknown(_)));
    assert_eq!(scene.app(), "v1");
}

#[tokio::test]
async fn a_record_or_a_link_that_is_not_ours_is_nobodys_proof() {
    let (scene, job, frozen) = dead(Died::Rename).await;
    let record = scene.live().join(format!("acts/{}.json", job.act_id));
    fs::write(
        &record,
        frozen.request.body.replace("CAB", "XYZ").replace("v2", "v9"),
    )
    .expect("written");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    fs::write(&record, &frozen.request.body).expect("written");
    let link = scene.live().join(format!("acts/{}", job.act_id));
    fs::remove_file(&link).expect("removed");
    symlink("/etc", &link).expect("linked");
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
}

#[tokio::test]
async fn an_unpacking_that_died_is_not_a_release_and_is_in_nobodys_way() {
    let scene = FolderScene::new();
    let job = scene.deploy("v1");
    let left = scene.live().join(format!("releases/.unpacking-{}-1", job.act_id));
    fs::create_dir_all(&left).expect("made");
    fs::write(left.join("app"), "half").expect("written");
    let frozen = scene.prepare(&job).await;
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.app(), "v1");
    assert!(!left.exists());
}
