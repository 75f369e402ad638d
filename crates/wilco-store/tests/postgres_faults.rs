//! When a connection is lost in the middle of a write, nobody is told anything that is not so: the write is read back
//! before it is answered, and no write is lost or made twice.
#![cfg(feature = "postgres-tests")]

mod support;

#[path = "support/database.rs"]
mod database;
#[path = "support/door.rs"]
mod door;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use database::Database;
use database::cluster::{Cluster, url_at};
use door::Door;
use futures::future::join_all;
use sqlx::{Connection, PgConnection, Row};
use wilco_core::journal::{Entry, first_break};
use wilco_core::write::Taken;
use wilco_core::{Act, Written};
use wilco_store::postgres::Fault;
use wilco_store::suite::{advance, answered, changed, fixed, inserted, read, sample};
use wilco_store::{Keeper, PostgresKeeper, PostgresOptions, StoreError};

/// What a write answered on the way to where a caller wants to be.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    advanced: u64,
    not_made: u64,
    unknown: u64,
}

/// Adds rows to an act's journal until as many writes as is `enough` were answered as advanced. After an answer that is
/// none, the act is read back, as every caller must; it may have moved on by the one write that was unknown, and by no other.
async fn press_on(keeper: &dyn Keeper, act: Act, enough: impl Fn(u64) -> bool) -> (Act, Told) {
    let (mut act, mut told) = (act, Told::default());
    while !enough(told.advanced) {
        let (now, n) = (act.clone(), act.version);
        let row = Entry::line(
            format!("{}-row{n}", act.handoff.id),
            format!("row {n}"),
            "scheduler",
        );
        match keeper.write(fixed(vec![sample::update(now, vec![row])])).await {
            Ok(Written::Advanced { mut acts, .. }) => {
                told.advanced += 1;
                act = acts.remove(0);
            }
            Ok(other) => panic!("nobody else writes this act: {other:?}"),
            Err(StoreError::Unknown(_)) => {
                told.unknown += 1;
                let stands = read_back(keeper, &act).await;
                assert!(stands.version == act.version || stands.version == act.version + 1);
                told.advanced += stands.version - act.version;
                act = stands;
            }
            Err(StoreError::Down(_) | StoreError::Busy) => {
                told.not_made += 1;
                // It was certainly not made.
                assert_eq!(read_back(keeper, &act).await, act);
            }
            Err(other) => panic!("{other}"),
        }
    }
    (act, told)
}

async fn read_back(keeper: &dyn Keeper, act: &Act) -> Act {
    loop {
        match keeper.act(act.act_id).await {
            Ok(Some(act)) => return act,
            Ok(None) => panic!("the act is gone"),
            Err(StoreError::Down(_) | StoreError::Busy) => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// The act is what was answered last, and its journal has one row for each write, in an unbroken chain.
async fn stands_once(keeper: &dyn Keeper, act: &Act) {
    assert_eq!(read(keeper, act.act_id).await, *act);
    let rows = keeper.journal(act.act_id).await.expect("a journal");
    assert_eq!(first_break(act, &rows), None);
    // Two lines came with the first version.
    assert_eq!(rows.len() as u64, act.version + 1);
}

/// Sixteen callers at these keepers, each with an act of its own, while something goes wrong until it is `over`.
async fn callers(keepers: &[PostgresKeeper], wrong: impl Future<Output = u32>) -> (Told, u32) {
    let acts: Vec<Act> = join_all((0..16).map(|n| inserted(&keepers[0], n))).await;
    let over = AtomicBool::new(false);
    let pressing = (0..).zip(&acts).map(|(n, act)| {
        let (keeper, over) = (&keepers[n % keepers.len()], &over);
        press_on(keeper, act.clone(), |n| n >= 5 && over.load(Ordering::Relaxed))
    });
    let wrong = async {
        let times = wrong.await;
        over.store(true, Ordering::Relaxed);
        times
    };
    let (all, times) = tokio::join!(join_all(pressing), wrong);
    let mut sum = Told::default();
    for (act, told) in all {
        for keeper in keepers {
            stands_once(keeper, &act).await;
        }
        sum.advanced += told.advanced;
        sum.not_made += told.not_made;
        sum.unknown += told.unknown;
        assert_eq!(act.version, 1 + told.advanced);
    }
    (sum, times)
}

/// The answer is lost: the write is found where it stands, and answered once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_read_back() {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    let act = inserted(&keeper, 1).await;
    keeper.fail(Fault::AnswerLost);
    let (act, told) = press_on(&keeper, act, |n| n == 1).await;
    assert_eq!((told.advanced, told.unknown, told.not_made), (1, 0, 0));
    assert_eq!(keeper.counters().unknown, 1);
    stands_once(&keeper, &act).await;
    keeper.close().await;
}

/// The question is lost: the write is found not to stand, and made on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_the_server_never_got_is_made_on_another_connection() {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    let act = inserted(&keeper, 1).await;
    keeper.fail(Fault::LostBefore);
    let (act, told) = press_on(&keeper, act, |n| n == 1).await;
    assert_eq!((told.advanced, told.unknown, told.not_made), (1, 0, 0));
    assert_eq!(keeper.counters().unknown, 1);
    stands_once(&keeper, &act).await;
    keeper.close().await;
}

/// Where reading back fails too, "unknown" is the answer, whether the write stands or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_back_is_unknown() {
    for (fault, stands) in [(Fault::AnswerLost, 1), (Fault::LostBefore, 0)] {
        let database = Database::new();
        let keeper = database.keeper_on_its_clock().await;
        let act = inserted(&keeper, 1).await;
        keeper.fail(fault);
        keeper.fail(Fault::ReadBackFails);
        let written = keeper
            .write(fixed(vec![sample::update(act.clone(), Vec::new())]))
            .await;
        assert!(matches!(written, Err(StoreError::Unknown(_))), "{written:?}");
        assert_eq!(read_back(&keeper, &act).await.version, act.version + stands);
        keeper.close().await;
    }
}

/// A write that is late each time is made in the end, with its rows locked first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_late_is_decided_anew() {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    let act = inserted(&keeper, 1).await;
    for _ in 0..3 {
        keeper.fail(Fault::Late);
    }
    let (act, told) = press_on(&keeper, act, |n| n == 3).await;
    assert_eq!((told.advanced, told.unknown, told.not_made), (3, 0, 0));
    stands_once(&keeper, &act).await;
    keeper.close().await;
}

/// What was in the way when the server looked is gone when the keeper looks why; meanwhile another daemon writes the very
/// act. Whatever of it is seen first, the answer is that act, never that its message id is somebody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_act_another_wrote_between_two_looks_is_the_answer() {
    for lock in [
        "LOCK TABLE acts IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE journal IN ACCESS EXCLUSIVE MODE",
    ] {
        let database = Database::new();
        let keeper = database.keeper_on_its_clock().await;
        let theirs = inserted(&keeper, 1).await;
        let mut other = database.raw().await;
        // Put away, to be written again as another daemon would: both rows at once.
        for step in [
            "CREATE TABLE their_act AS SELECT * FROM acts",
            "CREATE TABLE their_journal AS SELECT * FROM journal",
            "ALTER TABLE journal DISABLE TRIGGER ALL",
            "ALTER TABLE acts DISABLE TRIGGER ALL",
            "TRUNCATE journal, acts",
            "ALTER TABLE acts ENABLE TRIGGER ALL",
            "ALTER TABLE journal ENABLE TRIGGER ALL",
        ] {
            sqlx::query(step).execute(&mut other).await.expect(step);
        }

        let mut writing = other.begin().await.expect("a transaction");
        sqlx::query(lock).execute(&mut *writing).await.expect("locked");
        keeper.fail(Fault::Refused);
        let ours = keeper.write(Box::new(|at| {
            let mut act = sample::prepared(1, at);
            act.act_id = sample::id(2);
            vec![sample::insert(act)]
        }));
        let theirs_too = async {
            let mut db = database.raw().await;
            waiting(&mut db, None).await;
            for step in [
                "INSERT INTO acts SELECT * FROM their_act",
                "INSERT INTO journal SELECT * FROM their_journal",
            ] {
                sqlx::query(step).execute(&mut *writing).await.expect(step);
            }
            writing.commit().await.expect("written");
        };
        let (answer, ()) = tokio::join!(ours, theirs_too);
        match answered(answer) {
            Written::Taken(Taken::Handoff(holder)) => assert_eq!(*holder, theirs),
            other => panic!("{lock}: {other:?}"),
        }
        keeper.close().await;
    }
}

/// While the server may still be at a write whose connection is gone, nobody is told anything; it is ended first, and the
/// write is made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_is_still_at_is_ended_before_anybody_is_answered() {
    let cluster = Cluster::start(&[]).expect("a server");
    let database = Database::on(&cluster.url());
    let door = Door::to(cluster.folder());
    let keeper = PostgresKeeper::open(PostgresOptions::new(database.at(&url_at(door.folder()))))
        .await
        .expect("it opens");
    let act = inserted(&keeper, 1).await;

    let mut other = database.raw().await;
    let mut holding = other.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM acts FOR UPDATE")
        .execute(&mut *holding)
        .await
        .expect("locked");
    let writing = press_on(&keeper, act.clone(), |n| n == 1);
    let breaking = async {
        let mut db = database.raw().await;
        let first = waiting(&mut db, None).await;
        // Told to end, it does not yet: nothing is begun anew.
        signal("STOP", first);
        door.cut();
        while keeper.counters().unknown == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(all_waiting(&mut db).await, [first]);
        // Once it has ended, the write is begun anew, and waits again.
        signal("CONT", first);
        waiting(&mut db, Some(first)).await;
        assert_eq!(read(&keeper, act.act_id).await, act);
        holding.commit().await.expect("let go");
    };
    let ((act, told), ()) = tokio::join!(writing, breaking);
    assert_eq!((told.advanced, told.unknown, told.not_made), (1, 0, 0));
    assert!(keeper.counters().unknown >= 1);
    stands_once(&keeper, &act).await;
    keeper.close().await;
}

/// The server's process that waits for a row lock, once there is one other than this.
async fn waiting(db: &mut PgConnection, but: Option<i32>) -> i32 {
    loop {
        let found = all_waiting(db).await.into_iter().find(|pid| Some(*pid) != but);
        if let Some(pid) = found {
            return pid;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all_waiting(db: &mut PgConnection) -> Vec<i32> {
    let asked =
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let rows = sqlx::query(asked).fetch_all(db).await.expect("an answer");
    rows.iter().map(|row| row.get(0)).collect()
}

fn signal(name: &str, pid: i32) {
    let kill = std::process::Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status();
    assert!(
        kill.expect("a shell").success(),
        "process {pid} took no SIG{name}"
    );
}

/// A server that neither answers nor breaks off is given up: first a write is unknown, then the store is down. Nobody hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_is_given_up() {
    let cluster = Cluster::start(&[]).expect("a server");
    let database = Database::on(&cluster.url());
    for stands in [0, 1] {
        let door = Door::to(cluster.folder());
        let mut options = PostgresOptions::new(database.at(&url_at(door.folder())));
        options.statement_timeout = Duration::from_secs(1);
        options.lock_timeout = Duration::from_secs(1);
        options.doubt = Duration::from_millis(200);
        let keeper = PostgresKeeper::open(options).await.expect("it opens");
        let act = inserted(&keeper, 10 + stands).await;
        // Once before, so that the statement is prepared and one question carries the write.
        let act = changed(&keeper, act, |act, _| act).await;
        if stands == 0 {
            door.hold_questions();
        } else {
            door.hold_answers();
        }
        let written = keeper
            .write(fixed(vec![sample::update(act.clone(), Vec::new())]))
            .await;
        assert!(matches!(written, Err(StoreError::Unknown(_))), "{written:?}");
        assert!(!keeper.healthy());
        let written = keeper
            .write(fixed(vec![sample::update(act.clone(), Vec::new())]))
            .await;
        assert!(matches!(written, Err(StoreError::Down(_))), "{written:?}");

        door.cut();
        assert_eq!(read_back(&keeper, &act).await.version, act.version + stands);
        assert!(keeper.healthy());
        keeper.close().await;
    }
}

/// Connections are ended on the server's side at moments nobody chose, under load, at two keepers: what was answered as
/// advanced stands, what was not does not, and no write is made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_ended_at_any_moment() {
    let database = Database::new();
    let keepers = [
        database.keeper_on_its_clock().await,
        database.keeper_on_its_clock().await,
    ];
    let mut db = database.raw().await;
    let ending = async {
        let mut ended = 0;
        for _ in 0..200 {
            let one = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = 'wilcod' ORDER BY random() LIMIT 1";
            let rows = sqlx::query(one).fetch_all(&mut db).await.expect("an answer");
            ended += u32::from(!rows.is_empty());
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        ended
    };
    let (told, ended) = callers(&keepers, ending).await;
    let doubts: u64 = keepers.iter().map(|k| k.counters().unknown).sum();
    println!("{ended} connections ended, {doubts} doubts, {told:?}");
    assert!(ended > 100 && doubts > 10, "{ended} ended, {doubts} doubts");
    assert_eq!(told.unknown, 0, "the server was there all the time");
    for keeper in keepers {
        keeper.close().await;
    }
}

/// The server crashes under load and comes back: nothing that was answered is lost, nothing is made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_loses_nothing_that_was_answered() {
    let mut cluster = Cluster::start(&[]).expect("a server");
    let database = Database::on(&cluster.url());
    let keepers = [
        database.keeper_on_its_clock().await,
        database.keeper_on_its_clock().await,
    ];
    let crashing = tokio::task::spawn_blocking(move || {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            cluster.crash().expect("it crashes");
            cluster.start_again().expect("it starts");
        }
        cluster
    });
    let mut kept = None;
    let crashing = async {
        kept = Some(crashing.await.expect("crashed"));
        4
    };
    let (told, crashes) = callers(&keepers, crashing).await;
    let doubts: u64 = keepers.iter().map(|k| k.counters().unknown).sum();
    println!("{crashes} crashes, {doubts} doubts, {told:?}");
    assert!(doubts > 0);
    for keeper in keepers {
        keeper.close().await;
    }
    drop((database, kept));
}

/// A purge and a reversal that is passed on go through several statements or rows: a lost answer is read back there, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_several_acts_is_known_by_each_of_them() {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    let of = inserted(&keeper, 1).await.act_id;
    let first = advance(&keeper, move |at| {
        let mut act = sample::prepared(2, at);
        act.undo_of = Some(of);
        vec![sample::insert(act)]
    })
    .await
    .remove(0);
    for fault in [Fault::AnswerLost, Fault::LostBefore] {
        let holder = keeper.act_undoing(of).await.expect("an answer").expect("one");
        let (n, was) = if holder.act_id == first.act_id {
            (3, holder)
        } else {
            (4, holder)
        };
        keeper.fail(fault);
        let passed_on = keeper
            .write(Box::new(move |at| {
                let mut old = sample::lapsed(was.clone());
                old.undo_of = None;
                let mut new = sample::prepared(n, at);
                new.undo_of = Some(of);
                vec![sample::update(old, Vec::new()), sample::insert(new)]
            }))
            .await;
        let Written::Advanced { acts, .. } = answered(passed_on) else {
            panic!("nothing is in the way")
        };
        assert_eq!(acts.len(), 2);
        let holder = keeper.act_undoing(of).await.expect("an answer");
        assert_eq!(holder.map(|a| a.act_id), Some(sample::id(n)));
    }
    keeper.close().await;
}
