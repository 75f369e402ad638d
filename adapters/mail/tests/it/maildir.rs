//! A Maildir takes each act's message once, whatever is repeated, raced, moved, deleted or cut short. The mail in `new` and
//! `cur` is the judge.

use std::fs;
use std::path::PathBuf;

use wilco_adapter::{Adapter, Found, Outcome};
use wilco_core::contract::{Guarantee, Identity, LookupBy};

use crate::support::{Scene, note, remittance, start, words};

fn files(scene: &Scene, part: &str) -> Vec<PathBuf> {
    let folder = scene.config.path.join(part);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|e| e.expect("an entry").path()).collect()
}

fn mail(scene: &Scene) -> usize {
    files(scene, "new").len() + files(scene, "cur").len()
}

#[tokio::test]
async fn what_was_frozen_lies_in_the_maildir_once() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    assert_eq!(mail(&scene), 0, "prepare mails nothing");
    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        report.values,
        [("addr".to_owned(), "ar@marlow.example".to_owned())]
    );
    assert_eq!(report.receipt, Some(format!("{}.wilco", job.act_id)));
    let new = files(&scene, "new");
    assert_eq!(new.len(), 1);
    assert_eq!(fs::read_to_string(&new[0]).expect("mail"), frozen.request.body);
    assert!(files(&scene, "wilco/stage").is_empty(), "nothing is left over");
}

#[tokio::test]
async fn the_contract_is_one_under_which_sending_again_is_safe() {
    let served = Scene::maildir().mail.describe().serves;
    assert_eq!(served.len(), 2);
    for served in served {
        assert_eq!(served.contract.identity, Identity::Enforced);
        assert_eq!(served.contract.lookup, LookupBy::Reference);
        assert_eq!(served.contract.guarantee(), Guarantee::Replayable);
    }
}

#[tokio::test]
async fn sent_again_it_is_still_one_mail_also_after_a_restart() {
    let mut scene = Scene::maildir();
    let job = note();
    let frozen = scene.prepare(&job).await;
    for _ in 0..3 {
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
        assert_eq!(mail(&scene), 1);
        scene.restart();
    }
}

#[tokio::test]
async fn a_reader_who_moves_or_deletes_the_mail_brings_no_second_one() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;
    let new = files(&scene, "new").remove(0);
    let read = scene
        .config
        .path
        .join("cur")
        .join(format!("{}.wilco:2,S", job.act_id));
    fs::rename(&new, &read).expect("moved");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Executed(_)));
    assert_eq!(mail(&scene), 1);
    fs::remove_file(&read).expect("deleted");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Executed(_)));
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Executed(_)), "it was delivered: {found:?}");
    assert_eq!(mail(&scene), 0, "and the reader's wish stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_bring_one_mail() {
    let scene = Scene::maildir();
    for _ in 0..20 {
        let before = mail(&scene);
        let job = remittance();
        let frozen = scene.prepare(&job).await;
        let one = || scene.execute(&job, &frozen);
        let outcomes = tokio::join!(one(), one(), one(), one(), one(), one());
        let outcomes = [
            outcomes.0, outcomes.1, outcomes.2, outcomes.3, outcomes.4, outcomes.5,
        ];
        assert!(
            outcomes.iter().any(|o| matches!(o, Outcome::Executed(_))),
            "{outcomes:?}"
        );
        for outcome in &outcomes {
            // Whoever met another's half-done work may not know; nobody may say it did not happen.
            assert!(
                matches!(outcome, Outcome::Executed(_) | Outcome::Unknown(_)),
                "{outcome:?}"
            );
        }
        assert_eq!(mail(&scene) - before, 1);
        let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
        assert!(matches!(found, Found::Executed(_)), "{found:?}");
    }
    assert!(files(&scene, "wilco/stage").is_empty());
}

#[tokio::test]
async fn what_was_written_and_not_moved_is_not_mail_and_can_still_become_one() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let late = scene.permit(&job, &frozen);
    scene.clock.pass(3_600);
    let outcome = scene.mail.execute(late, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(words(&outcome).contains("last moment"), "{}", words(&outcome));
    assert_eq!(mail(&scene), 0);
    // The same as after a death between writing and moving.
    assert_eq!(
        (
            files(&scene, "wilco/stage").len(),
            files(&scene, "wilco/sent").len()
        ),
        (1, 1)
    );
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Absent(_)), "{found:?}");
    // Whoever may still send, sends that.
    scene.clock.pass(-3_600);
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!((mail(&scene), files(&scene, "wilco/stage").len()), (1, 0));
}

#[tokio::test]
async fn an_act_nobody_delivered_is_absent() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Absent(_)), "{found:?}");
}

#[tokio::test]
async fn a_folder_that_is_gone_or_another_proves_nothing() {
    let mut scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;
    let moved = scene.folder.0.join("elsewhere");
    fs::rename(&scene.config.path, &moved).expect("moved");
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Unknown(_)), "gone: {found:?}");
    assert!(scene.mail.health().await.is_err());
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));

    // A daemon that starts makes a new one; the old act is not looked up in it, and not sent into it.
    scene.restart();
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Unknown(_)), "another: {found:?}");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    assert_eq!(mail(&scene), 0);

    fs::remove_dir_all(&scene.config.path).expect("removed");
    fs::rename(&moved, &scene.config.path).expect("moved back");
    scene.restart();
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Executed(_)), "back again: {found:?}");
}

#[tokio::test]
async fn a_message_that_is_not_the_stated_one_is_named() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;
    let new = files(&scene, "new").remove(0);
    fs::write(&new, "To: somebody@else.example\r\n\r\nhello").expect("written");
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Exists(_)), "{found:?}");
}

#[tokio::test]
async fn a_place_that_cannot_be_a_maildir_is_named_at_start() {
    let scene = Scene::maildir();
    let file = scene.folder.write("occupied", b"x");
    let mut config = scene.config.clone();
    config.path = file;
    let error = match adapter_mail::MailAdapter::new(&config, scene.clock.clone()) {
        Ok(_) => panic!("a file is no folder"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.starts_with("[adapters.mail] path: must be a Maildir"),
        "{error}"
    );
}

/// What was written and never moved is tidied away by somebody: it looks as if it had been delivered and read, and nobody may
/// say either.
#[tokio::test]
async fn a_staged_message_that_somebody_tidied_away_was_not_seen_to_be_delivered() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let late = scene.permit(&job, &frozen);
    scene.clock.pass(3_600);
    assert!(matches!(
        scene.mail.execute(late, &frozen).await,
        Outcome::NotSent(_)
    ));
    for staged in fs::read_dir(scene.config.path.join("wilco/stage")).expect("a folder") {
        fs::remove_file(staged.expect("an entry").path()).expect("tidied");
    }
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Unknown(_)), "{found:?}");
    assert_eq!(mail(&scene), 0);
}

/// Killed between the move and its note: the message itself says that it is there, as long as it lies there.
#[tokio::test]
async fn a_delivery_that_nobody_noted_is_told_by_the_message_itself() {
    let scene = Scene::maildir();
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Executed(_)));
    let noted = scene.config.path.join("wilco/done").join(job.act_id.to_string());
    fs::remove_file(noted).expect("noted");
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Executed(_)), "{found:?}");
    let delivered = scene
        .config
        .path
        .join("new")
        .join(format!("{}.wilco", job.act_id));
    fs::remove_file(delivered).expect("read and deleted");
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Unknown(_)), "{found:?}");
}
