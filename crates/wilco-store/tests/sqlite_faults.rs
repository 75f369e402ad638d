//! When a batch goes wrong, each member is answered with what a fresh connection then reads, and not before.
//!
//! All on one thread, so that the writers of a case stand in the queue together and make one batch.

mod support;

use std::sync::Arc;

use futures::future::join_all;
use sqlx::Connection;
use support::Folder;
use wilco_core::{Act, Change, Written};
use wilco_store::sqlite::Fault;
use wilco_store::suite::hand::HandClock;
use wilco_store::suite::{changed, fixed, inserted, read, sample};
use wilco_store::{Keeper, SqliteKeeper, StoreError};

/// Two acts that stand, one of them moved on; then a batch of seven: five in order, one stale, one taken.
struct Scene {
    folder: Folder,
    clock: Arc<HandClock>,
    keeper: SqliteKeeper,
    old: Act,
    current: Act,
    other: Act,
}

#[derive(Debug, PartialEq)]
enum Told {
    Stands,
    DoesNot,
    Unknown,
}

impl Scene {
    async fn new() -> Scene {
        let (folder, clock) = (Folder::new(), HandClock::new());
        let keeper = folder.keeper(&clock).await;
        let old = inserted(&keeper, 1).await;
        let other = inserted(&keeper, 2).await;
        let current = changed(&keeper, old.clone(), sample::claimed).await;
        Scene {
            folder,
            clock,
            keeper,
            old,
            current,
            other,
        }
    }

    fn batch(&self) -> Vec<Vec<Change>> {
        let at = self.keeper.now();
        let fresh = |n| sample::insert(sample::prepared(n, at));
        let mut twin = sample::prepared(30, at);
        twin.handoff.id.clone_from(&self.old.handoff.id);
        let mut boom = sample::prepared(12, at);
        boom.handoff.item = "boom".to_owned();
        vec![
            vec![fresh(10)],
            vec![sample::update(sample::lapsed(self.old.clone()), Vec::new())],
            vec![sample::update(
                sample::done(self.current.clone(), at),
                wilco_store::suite::writes::entries(1),
            )],
            vec![
                fresh(11),
                sample::update(sample::lapsed(self.other.clone()), Vec::new()),
            ],
            vec![sample::insert(boom)],
            vec![sample::insert(twin)],
            vec![fresh(13)],
        ]
    }

    /// Only members that nothing stands in the way of, for faults that must meet the first try.
    fn orderly(&self) -> Vec<Vec<Change>> {
        let mut batch = self.batch();
        batch.remove(5);
        batch.remove(1);
        batch
    }

    /// Writes the batch and holds each answer against the file, read by a connection of its own.
    async fn write(&self, batch: Vec<Vec<Change>>) -> Vec<Told> {
        self.keeper.fail(Fault::Gathers(batch.len()));
        let answers = join_all(batch.iter().cloned().map(|b| self.keeper.write(fixed(b)))).await;
        let mut told = Vec::new();
        for (changes, answer) in batch.iter().zip(answers) {
            let stand = self.stand(changes).await;
            match answer {
                Ok(Written::Advanced { acts, durable, .. }) => {
                    assert!(
                        stand.iter().all(|s| *s),
                        "answered as advanced, and does not stand"
                    );
                    for act in &acts {
                        assert_eq!(read(&self.keeper, act.act_id).await, *act);
                        assert!(!durable.covers_claim_of(act.act_id));
                    }
                    told.push(Told::Stands);
                }
                Err(StoreError::Down(why)) => {
                    assert!(stand.iter().all(|s| !s), "answered as not written, and stands");
                    assert!(why.contains("safe to send it again"), "{why}");
                    told.push(Told::DoesNot);
                }
                Err(StoreError::Unknown(_)) => told.push(Told::Unknown),
                other => panic!("not an answer to a batch that went wrong: {other:?}"),
            }
        }
        told
    }

    /// Whether each change's version stands in the file.
    async fn stand(&self, changes: &[Change]) -> Vec<bool> {
        let mut raw = self.folder.raw().await;
        let mut stand = Vec::new();
        for change in changes {
            let wanted = match change.expect {
                wilco_core::Expect::Absent => 1,
                wilco_core::Expect::Version(v) => v + 1,
            };
            let found: Option<(i64, i64, i64)> = sqlx::query_as(
                "SELECT version, updated_at, (SELECT count(*) FROM journal WHERE journal.act_id = acts.act_id) - seq
                 FROM acts WHERE act_id = $1",
            )
            .bind(change.act.act_id.to_string())
            .fetch_optional(&mut raw)
            .await
            .expect("the file can be read");
            if let Some((_, _, rows_too_many)) = found {
                assert_eq!(rows_too_many, 0, "an act and its journal stand apart");
            }
            let version = found.map(|(version, _, _)| version.cast_unsigned());
            // The stale change names a version that stands for another reason.
            let ours = change.act.version != self.old.version || change.act.act_id != self.old.act_id;
            stand.push(ours && version == Some(wanted));
        }
        raw.close().await.expect("closed");
        stand
    }

    /// Writes a batch whose COMMIT is carried out, unanswered, by a disk that then cannot be read.
    async fn lose_the_disk(&self, batch: Vec<Vec<Change>>) {
        self.keeper.fail(Fault::CommitAnswerLost);
        self.keeper.fail(Fault::ReopenFails);
        let told = self.write(batch).await;
        assert!(told.iter().all(|t| *t == Told::Unknown), "{told:?}");
        assert!(!self.keeper.healthy());
        let later = self.keeper.write(fixed(Vec::new())).await;
        assert!(
            matches!(&later, Err(StoreError::Down(why)) if why.contains("could not be read back")),
            "{later:?}"
        );
    }

    /// The keeper works on, and the batch goes through when it is sent again.
    async fn works_on(&self, batch: Vec<Vec<Change>>) {
        assert!(self.keeper.healthy());
        for changes in batch {
            let written = self.keeper.write(fixed(changes)).await;
            assert!(matches!(written, Ok(Written::Advanced { .. })), "{written:?}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_fails_leaves_nothing() {
    let scene = Scene::new().await;
    scene.keeper.fail(Fault::CommitFails);
    let told = scene.write(scene.batch()).await;
    // The stale and the taken too: they were judged beside members that do not stand.
    assert!(told.iter().all(|t| *t == Told::DoesNot), "{told:?}");
    assert_eq!(scene.keeper.counters().unknown, 5);
    scene.works_on(scene.orderly()).await;
    scene.keeper.close().await;
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_stands() {
    let scene = Scene::new().await;
    let before = scene.keeper.counters();
    scene.keeper.fail(Fault::CommitAnswerLost);
    let told = scene.write(scene.orderly()).await;
    assert!(told.iter().all(|t| *t == Told::Stands), "{told:?}");
    let after = scene.keeper.counters();
    assert_eq!((after.unknown, after.writes), (5, before.writes + 5));

    // Mixed with members that were refused: those are told to come again, and learn the truth then.
    let fresh = vec![sample::insert(sample::prepared(20, scene.keeper.now()))];
    let stale = vec![sample::update(sample::lapsed(scene.old.clone()), Vec::new())];
    scene.keeper.fail(Fault::CommitAnswerLost);
    let told = scene.write(vec![fresh, stale.clone()]).await;
    assert_eq!(told, [Told::Stands, Told::DoesNot]);
    let again = scene.keeper.write(fixed(stale)).await;
    assert!(matches!(again, Ok(Written::Stale { .. })), "{again:?}");
    scene.keeper.close().await;
}

#[tokio::test]
async fn a_claim_whose_commit_answer_is_lost_is_still_attested() {
    let scene = Scene::new().await;
    scene.keeper.fail(Fault::CommitAnswerLost);
    let at = scene.keeper.now();
    let change = sample::update(sample::claimed(scene.other.clone(), at), Vec::new());
    match scene.keeper.write(fixed(vec![change])).await {
        Ok(Written::Advanced { durable, acts, .. }) => {
            assert!(durable.covers_claim_of(acts[0].act_id));
            assert_eq!(read(&scene.keeper, acts[0].act_id).await, acts[0]);
        }
        other => panic!("the claim stands: {other:?}"),
    }
    scene.keeper.close().await;
}

// What SQLite does on a full disk, brought about by a trigger on one member in the middle.
#[tokio::test]
async fn a_transaction_that_closes_itself_between_members_leaves_nothing() {
    let scene = Scene::new().await;
    scene.keeper.fail(Fault::Runs(
        "CREATE TEMP TRIGGER boom AFTER INSERT ON main.acts WHEN NEW.item = 'boom'
         BEGIN SELECT RAISE (ROLLBACK, 'the disk is full, say'); END",
    ));
    let told = scene.write(scene.orderly()).await;
    assert!(told.iter().all(|t| *t == Told::DoesNot), "{told:?}");
    // The trigger went with the connection.
    scene.works_on(scene.orderly()).await;
    scene.keeper.close().await;
}

#[tokio::test]
async fn statements_after_the_transaction_closed_are_not_committed_one_by_one() {
    let scene = Scene::new().await;
    scene.keeper.fail(Fault::Runs("ROLLBACK"));
    let told = scene.write(scene.orderly()).await;
    assert!(told.iter().all(|t| *t == Told::DoesNot), "{told:?}");
    scene.works_on(scene.orderly()).await;
    scene.keeper.close().await;
}

#[tokio::test]
async fn a_full_file_is_told_and_survived() {
    let scene = Scene::new().await;
    scene.keeper.fail(Fault::Runs("PRAGMA max_page_count = 1"));
    let told = scene.write(scene.orderly()).await;
    assert!(told.iter().all(|t| *t == Told::DoesNot), "{told:?}");
    scene.works_on(scene.orderly()).await;
    scene.keeper.close().await;
}

#[tokio::test]
async fn what_cannot_be_read_back_is_unknown_and_the_store_stops() {
    let scene = Scene::new().await;
    let batch = scene.orderly();
    scene.lose_the_disk(batch.clone()).await;

    // A restart finds the truth: this commit had gone through.
    scene.keeper.close().await;
    let keeper = scene.folder.keeper(&scene.clock).await;
    for change in batch.iter().flatten() {
        let act = read(&keeper, change.act.act_id).await;
        assert_eq!(act.version, change.act.version + 1);
    }
    keeper.close().await;
}

#[tokio::test]
async fn a_disk_that_comes_back_is_written_to_again() {
    let scene = Scene::new().await;
    for round in 0..2 {
        // Each time another act, as those of the round before stand.
        let fresh = vec![vec![sample::insert(sample::prepared(
            40 + round,
            scene.keeper.now(),
        ))]];
        scene.lose_the_disk(fresh.clone()).await;
        scene.keeper.reopen_succeeds();
        while !scene.keeper.healthy() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        // What was unknown stood, and is met by whoever sends it again.
        assert_eq!(scene.stand(&fresh[0]).await, [true]);
        let again = scene.keeper.write(fixed(fresh[0].clone())).await;
        assert!(
            matches!(again, Ok(Written::Taken(_) | Written::Stale { .. })),
            "{again:?}"
        );
    }
    scene.works_on(scene.orderly()).await;

    // The new connection is guarded like the first one: nothing is committed outside its transaction.
    let before = scene.keeper.counters();
    scene.keeper.fail(Fault::Runs("ROLLBACK"));
    let fresh = vec![vec![sample::insert(sample::prepared(50, scene.keeper.now()))]];
    assert_eq!(scene.write(fresh).await, [Told::DoesNot]);
    assert_eq!(scene.keeper.counters().writes, before.writes);
    scene.keeper.close().await;
}

#[tokio::test]
async fn a_decision_that_panics_takes_nobody_with_it() {
    let scene = Scene::new().await;
    let at = scene.keeper.now();
    let good = |n| fixed(vec![sample::insert(sample::prepared(n, at))]);
    let bad: wilco_core::write::Decide = Box::new(|_| panic!("a defect"));
    let jobs = [good(20), bad, good(21)].map(|decide| scene.keeper.write(decide));
    let answers = join_all(jobs).await;
    assert!(matches!(&answers[0], Ok(Written::Advanced { .. })));
    assert!(matches!(&answers[1], Err(StoreError::Down(why)) if why.contains("panicked")));
    assert!(matches!(&answers[2], Ok(Written::Advanced { .. })));
    assert!(scene.keeper.healthy());
    scene.keeper.close().await;
}
