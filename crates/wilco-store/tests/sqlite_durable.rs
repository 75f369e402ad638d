//! What one folder promises beyond one process: it keeps everything, it has one owner, and its clock goes on.

mod support;

use std::sync::Arc;

use futures::future::join_all;
use sqlx::Connection;
use support::Folder;
use wilco_core::journal::first_break;
use wilco_core::{Act, Clock, Written};
use wilco_store::suite::hand::HandClock;
use wilco_store::suite::{advance, changed, inserted, read, sample};
use wilco_store::{Filter, Keeper, SqliteKeeper, SqliteOptions, StoreError};

#[tokio::test]
async fn a_restart_keeps_everything() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let mut acts: Vec<Act> = Vec::new();
    for n in 1..=5 {
        acts.push(inserted(&keeper, n).await);
    }
    acts[0] = changed(&keeper, acts[0].clone(), sample::claimed).await;
    acts[1] = advance(&keeper, {
        let act = acts[1].clone();
        move |at| {
            let entries = wilco_store::suite::writes::entries(2);
            vec![sample::update(sample::done(act.clone(), at), entries)]
        }
    })
    .await
    .remove(0);
    let before = everything(&keeper, &acts).await;
    keeper.close().await;

    let keeper = folder.keeper(&clock).await;
    assert_eq!(everything(&keeper, &acts).await, before);
    for act in &acts {
        let rows = keeper.journal(act.act_id).await.expect("a journal");
        assert_eq!(first_break(act, &rows), None);
    }
    assert_eq!(keeper.claimed().await, Ok(vec![acts[0].clone()]));
    // And it goes on from there.
    let act = changed(&keeper, acts[0].clone(), sample::done).await;
    assert_eq!(read(&keeper, act.act_id).await, act);
    keeper.close().await;
}

async fn everything(keeper: &SqliteKeeper, acts: &[Act]) -> String {
    let mut journals = Vec::new();
    for act in acts {
        journals.push(keeper.journal(act.act_id).await);
    }
    format!(
        "{:?} {:?} {:?} {journals:?}",
        keeper.acts(&Filter::default()).await,
        keeper.thread(sample::THREAD, None, 0).await,
        keeper.counts().await,
    )
}

#[tokio::test]
async fn the_highest_instant_outlives_the_process() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let last = inserted(&keeper, 1).await.updated_at;
    keeper.close().await;

    clock.advance_s(-30);
    let keeper = folder.keeper(&clock).await;
    assert!(keeper.now() >= last && keeper.healthy());
    let next = inserted(&keeper, 2).await.updated_at;
    assert!(next > last);
    keeper.close().await;

    clock.advance_s(-3_600);
    let keeper = folder.keeper(&clock).await;
    assert!(!keeper.healthy() && keeper.clock_behind_s() >= 3_600);
    assert!(keeper.now() >= next);
    keeper.acknowledge_clock();
    assert!(inserted(&keeper, 3).await.updated_at > next);
    assert!(keeper.now() > clock.now());
    keeper.close().await;
}

#[tokio::test]
async fn a_folder_has_one_owner() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    inserted(&keeper, 1).await;
    let second = SqliteKeeper::open(SqliteOptions::new(folder.path(), Arc::clone(&clock) as _)).await;
    let Err(StoreError::Refuse(why)) = second else {
        panic!("a second owner was let in");
    };
    let dir = folder.path().display().to_string();
    let pid = format!("process {}", std::process::id());
    assert!(
        why.contains(&dir) && why.contains(&pid) && why.contains("stop it"),
        "{why}"
    );

    // The one who has it is not disturbed, and once it has closed the folder is free.
    inserted(&keeper, 2).await;
    keeper.close().await;
    let keeper = folder.keeper(&clock).await;
    assert_eq!(keeper.act(sample::id(2)).await.map(|a| a.is_some()), Ok(true));
    keeper.close().await;
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_refused_by_name() {
    let clock = HandClock::new();
    let cases = [
        (
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from later', 1, x'00', 0)",
            "from a newer version (its migration 9999",
        ),
        (
            "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1",
            "migration 1 of the database is not the one this version knows",
        ),
    ];
    for (damage, wanted) in cases {
        let folder = Folder::new();
        folder.keeper(&clock).await.close().await;
        let mut raw = folder.raw().await;
        sqlx::query(damage)
            .execute(&mut raw)
            .await
            .expect("the damage is done");
        raw.close().await.expect("closed");
        let why = refusal(&folder, &clock).await;
        assert!(why.contains(wanted) && why.contains("wilco.sqlite"), "{why}");
    }

    let folder = Folder::new();
    std::fs::write(folder.path().join("wilco.sqlite"), [7; 8192]).expect("written");
    let why = refusal(&folder, &clock).await;
    assert!(
        why.contains("wilco.sqlite: the database cannot be opened"),
        "{why}"
    );

    let folder = Folder::new();
    folder.keeper(&clock).await.close().await;
    let mut raw = folder.raw().await;
    let gone = sqlx::query("DELETE FROM clock").execute(&mut raw).await;
    gone.expect("the damage is done");
    raw.close().await.expect("closed");
    let options = SqliteOptions::new(folder.path(), Arc::clone(&clock) as _);
    match SqliteKeeper::open(options).await.err() {
        Some(StoreError::Row { table: "clock", .. }) => {}
        other => panic!("the missing clock should be named: {other:?}"),
    }
}

async fn refusal(folder: &Folder, clock: &Arc<HandClock>) -> String {
    let options = SqliteOptions::new(folder.path(), Arc::clone(clock) as _);
    match SqliteKeeper::open(options).await.err() {
        Some(StoreError::Refuse(why)) => why,
        other => panic!("the folder should be refused: {other:?}"),
    }
}

// On one thread all sixty-four stand in the queue before the writer runs.
#[tokio::test]
async fn many_writers_share_a_flush() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let at = keeper.now();
    let writers = (1..=64).map(|n| {
        let change = sample::insert(sample::prepared(n, at));
        keeper.write(wilco_store::suite::fixed(vec![change]))
    });
    for written in join_all(writers).await {
        assert!(matches!(written, Ok(Written::Advanced { .. })), "{written:?}");
    }
    let counters = keeper.counters();
    assert_eq!(counters.writes, 64);
    assert!(counters.flushes < counters.writes / 8, "{counters:?}");
    keeper.close().await;
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let mut options = SqliteOptions::new(folder.path(), Arc::clone(&clock) as _);
    options.queue = 2;
    let keeper = SqliteKeeper::open(options).await.expect("the folder opens");
    let at = keeper.now();
    let writers = (1..=500).map(|n| {
        let change = sample::insert(sample::prepared(n, at));
        keeper.write(wilco_store::suite::fixed(vec![change]))
    });
    let answers = join_all(writers).await;
    let busy = answers
        .iter()
        .filter(|a| matches!(a, Err(StoreError::Busy)))
        .count();
    let advanced = answers
        .iter()
        .filter(|a| matches!(a, Ok(Written::Advanced { .. })));
    // How many find room depends on how quick the writer is: but each is told the truth, and no more than fit are kept.
    let advanced = advanced.count();
    assert!(busy > 0 && advanced > 0, "{busy} busy, {advanced} written");
    assert_eq!(busy + advanced, 500);
    let kept = keeper.counts().await.expect("counts");
    assert_eq!(kept.iter().map(|(_, n)| *n).sum::<u64>(), advanced as u64);
    keeper.close().await;
}

#[tokio::test]
async fn what_was_accepted_is_finished_by_closing() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let at = keeper.now();
    let writers = join_all((1..=20).map(|n| {
        let change = sample::insert(sample::prepared(n, at));
        keeper.write(wilco_store::suite::fixed(vec![change]))
    }));
    let (answers, ()) = futures::future::join(writers, keeper.close()).await;
    assert!(answers.iter().all(|a| matches!(a, Ok(Written::Advanced { .. }))));

    let keeper = folder.keeper(&clock).await;
    let kept = keeper.acts(&Filter::default()).await.expect("a list");
    assert_eq!(kept.items.len(), 20);
    keeper.close().await;
}

#[tokio::test]
async fn the_journal_cannot_be_rewritten_by_hand() {
    let (folder, clock) = (Folder::new(), HandClock::new());
    let keeper = folder.keeper(&clock).await;
    let act = inserted(&keeper, 1).await;
    let mut raw = folder.raw().await;
    for attempt in [
        "DELETE FROM journal",
        "UPDATE journal SET body = 'another'",
        "UPDATE journal SET hash = 'x', body = NULL",
        "UPDATE journal SET message_id = NULL, body = NULL",
    ] {
        let refused = sqlx::query(attempt).execute(&mut raw).await;
        let why = refused.expect_err("append-only").to_string();
        assert!(why.contains("append-only"), "{why}");
    }
    // A body can be erased, and the chain still holds.
    let erased = sqlx::query("UPDATE journal SET body = NULL WHERE seq = 2")
        .execute(&mut raw)
        .await;
    erased.expect("a body may go");
    let rows = keeper.journal(act.act_id).await.expect("a journal");
    assert_eq!(rows[1].body, None);
    assert_eq!(first_break(&act, &rows), None);

    // Whoever takes the guards away is found by the chain.
    for change in [
        "DROP TRIGGER journal_rows_stand",
        "UPDATE journal SET body = 'another' WHERE seq = 1",
    ] {
        sqlx::query(change)
            .execute(&mut raw)
            .await
            .expect("the damage is done");
    }
    raw.close().await.expect("closed");
    let rows = keeper.journal(act.act_id).await.expect("a journal");
    assert_eq!(first_break(&act, &rows), Some(1));
    keeper.close().await;
}
