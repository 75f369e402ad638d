//! What the keeper asks of its server: durability before anything else, and an answer in time whatever is in the way.
#![cfg(feature = "postgres-tests")]

#[path = "support/database.rs"]
mod database;

use std::time::Duration;

use database::Database;
use database::cluster::Cluster;
use futures::future::join_all;
use sqlx::{Connection, PgConnection, Row};
use wilco_core::Written;
use wilco_store::suite::{answered, fixed, inserted, inserted_as, read, sample};
use wilco_store::{Keeper, PostgresKeeper, PostgresOptions, StoreError};

async fn refusal(url: String) -> String {
    match PostgresKeeper::open(PostgresOptions::new(url)).await {
        Err(StoreError::Refuse(why)) => why,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("it was opened"),
    }
}

fn with(url: &str, setting: &str) -> String {
    format!(
        "{url}&options[{}]={}",
        setting.split_once('=').expect("one").0,
        setting.split_once('=').expect("one").1
    )
}

/// A server on which a claim could be lost after it was answered is not used: the setting is named, and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_is_refused() {
    let mut cluster = Cluster::start(&["fsync = off"]).expect("a server");
    let database = Database::on(&cluster.url());
    let why = refusal(database.url()).await;
    assert!(
        why.contains("fsync = off") && why.contains("a second time"),
        "{why}"
    );

    cluster.set("fsync = on").expect("set");
    cluster.set("full_page_writes = off").expect("set");
    let why = until_refused_for(&database, "full_page_writes = off").await;
    assert!(why.contains("Set full_page_writes = on"), "{why}");

    cluster.set("full_page_writes = on").expect("set");
    let why = refusal(with(&database.url(), "synchronous_commit=off")).await;
    assert!(why.contains("synchronous_commit = off"), "{why}");

    for durable in ["on", "local", "remote_write", "remote_apply"] {
        let url = with(&database.url(), &format!("synchronous_commit={durable}"));
        let keeper = PostgresKeeper::open(PostgresOptions::new(url))
            .await
            .expect("it opens");
        assert!(keeper.healthy());
        keeper.close().await;
    }

    // It may be switched off later, for new connections: none of them is used.
    let keeper = database.keeper_on_its_clock().await;
    inserted(&keeper, 1).await;
    let mut db = database.raw().await;
    let off = sqlx::AssertSqlSafe(format!(
        "ALTER DATABASE {} SET synchronous_commit = off",
        database.name()
    ));
    sqlx::raw_sql(off).execute(&mut db).await.expect("set");
    let writes =
        (10..40_u64).map(|n| keeper.write(Box::new(move |at| vec![sample::insert(sample::prepared(n, at))])));
    let answers = join_all(writes).await;
    assert!(
        answers
            .iter()
            .any(|a| matches!(a, Err(StoreError::Refuse(why)) if why.contains("synchronous_commit")))
    );
    assert!(
        answers
            .iter()
            .all(|a| matches!(a, Ok(Written::Advanced { .. }) | Err(StoreError::Refuse(_))))
    );
    keeper.close().await;
}

/// What durability needs may be switched off while the keeper works: it takes no writes then and names the setting, reads on,
/// and takes writes again by itself once the setting is on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_begins_to_forget_gets_no_writes_until_it_ends() {
    let mut cluster = Cluster::start(&[]).expect("a server");
    let database = Database::on(&cluster.url());
    let keeper = database.keeper_on_its_clock().await;
    let act = inserted(&keeper, 1).await;
    assert_eq!(keeper.trouble(), None);
    let mut n = 1;
    for setting in ["fsync", "full_page_writes"] {
        cluster.set(&format!("{setting} = off")).expect("set");
        let named = format!("{setting} = off");
        // It notices by itself, though nobody writes.
        until(|| keeper.trouble().is_some_and(|why| why.contains(&named))).await;
        assert!(!keeper.healthy());
        let write = keeper
            .write(Box::new(|at| vec![sample::insert(sample::prepared(900, at))]))
            .await;
        assert!(
            matches!(&write, Err(StoreError::Down(why)) if why.contains(&named)),
            "{write:?}"
        );
        assert_eq!(read(&keeper, act.act_id).await, act);

        cluster.set(&format!("{setting} = on")).expect("set");
        until(|| keeper.healthy()).await;
        assert_eq!(keeper.trouble(), None);
        n += 1;
        inserted(&keeper, n).await;
    }

    // The very next write notices, when it comes before the keeper has looked.
    cluster.set("fsync = off").expect("set");
    let mut last = None;
    for n in 10..1_000_u64 {
        let before = keeper.healthy();
        let write = keeper
            .write(Box::new(move |at| vec![sample::insert(sample::prepared(n, at))]))
            .await;
        if let Err(error) = write {
            last = Some((before, error, sample::id(n)));
            break;
        }
    }
    let (before, error, id) = last.expect("a write was refused");
    assert!(before, "it was still thought durable");
    assert!(
        matches!(&error, StoreError::Down(why) if why.contains("fsync = off")),
        "{error:?}"
    );
    assert!(!keeper.healthy());
    assert_eq!(keeper.act(id).await, Ok(None), "and nothing of it was made");
    keeper.close().await;
}

async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1_500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to be");
}

/// Whether a commit waits for the disk is settled when a connection is made; a server that is told otherwise later, in
/// whatever way, is not followed. One that waits for more than the disk still does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_wait_for_the_disk_whatever_is_set_later() {
    let mut cluster = Cluster::start(&[]).expect("a server");
    for (before, wanted) in [
        ("on", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        cluster
            .set(&format!("synchronous_commit = {before}"))
            .expect("set");
        let database = Database::on(&cluster.url());
        let mut db = database.raw().await;
        while setting(&mut db, "synchronous_commit").await != before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut options = PostgresOptions::new(database.url());
        options.connections = 1;
        let keeper = PostgresKeeper::open(options).await.expect("it opens");
        // The row of each write notes how it is committed, and that the server's new settings have reached its connection.
        let noting = "CREATE TABLE noted (how TEXT, marker TEXT);
            CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO noted VALUES (current_setting('synchronous_commit'), current_setting('commit_siblings'));
                RETURN NEW;
            END $$;
            CREATE TRIGGER note BEFORE INSERT ON acts FOR EACH ROW EXECUTE FUNCTION note();";
        sqlx::raw_sql(noting).execute(&mut db).await.expect("noting");
        inserted(&keeper, 1).await;
        cluster.set("synchronous_commit = off").expect("set");
        cluster.set("commit_siblings = 77").expect("set");
        let mut n = 1;
        loop {
            n += 1;
            inserted(&keeper, n).await;
            let asked = "SELECT how, marker FROM noted";
            let rows = sqlx::query(asked).fetch_all(&mut db).await.expect("noted");
            let ways: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
            assert!(ways.iter().all(|way| *way == wanted), "{before}: {ways:?}");
            if rows.iter().any(|row| row.get::<&str, _>(1) == "77") {
                break;
            }
        }
        keeper.close().await;
        cluster.set("commit_siblings = 5").expect("set");
    }
}

async fn setting(db: &mut PgConnection, name: &str) -> String {
    let asked = sqlx::query("SELECT current_setting($1)").bind(name.to_owned());
    asked.fetch_one(db).await.expect("a setting").get(0)
}

/// Where the daemon's own connection is not shown to its user, no doubt could ever be ended: it is not begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hides_connections_is_refused() {
    let database = Database::new();
    let mut db = database.raw().await;
    // In the way of the real one: a view that shows nobody, and one that shows nobody's start.
    let hiding = "CREATE SCHEMA nobody; CREATE VIEW nobody.pg_stat_activity AS
                      SELECT * FROM pg_catalog.pg_stat_activity WHERE false;
                  CREATE SCHEMA no_start; CREATE VIEW no_start.pg_stat_activity AS
                      SELECT pid, CAST(NULL AS TIMESTAMPTZ) AS backend_start FROM pg_catalog.pg_stat_activity;";
    sqlx::raw_sql(hiding).execute(&mut db).await.expect("hidden");
    for schema in ["nobody", "no_start"] {
        let why = refusal(with(
            &database.url(),
            &format!("search_path={schema},pg_catalog,public"),
        ))
        .await;
        assert!(
            why.contains("pg_stat_activity") && why.contains("Let that user read"),
            "{why}"
        );
    }

    // A user who may not even ask.
    let user = format!("{}_blind", database.name());
    let forbidding = format!(
        "REVOKE SELECT ON pg_catalog.pg_stat_activity FROM PUBLIC; CREATE USER {user};
         GRANT ALL ON SCHEMA public TO {user};"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(forbidding))
        .execute(&mut db)
        .await
        .expect("forbidden");
    let url = database.url().replacen("wilco@", &format!("{user}@"), 1);
    let why = refusal(url.clone()).await;
    assert!(
        why.contains("pg_stat_activity") && why.contains("permission denied"),
        "{why}"
    );

    // An ordinary user needs no more than that, and no privilege besides.
    let allowing = "GRANT SELECT ON pg_catalog.pg_stat_activity TO PUBLIC";
    sqlx::raw_sql(allowing).execute(&mut db).await.expect("allowed");
    let keeper = PostgresKeeper::open(PostgresOptions::new(url))
        .await
        .expect("it opens");
    inserted(&keeper, 1).await;
    keeper.close().await;
    let leaving = format!("DROP OWNED BY {user}; DROP USER {user}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(leaving))
        .execute(&mut db)
        .await
        .expect("removed");
}

/// A setting that is only reread takes a moment to reach every process of the server.
async fn until_refused_for(database: &Database, setting: &str) -> String {
    loop {
        let opened = PostgresKeeper::open(PostgresOptions::new(database.url())).await;
        match opened {
            Err(StoreError::Refuse(why)) if why.contains(setting) => return why,
            Err(StoreError::Refuse(_)) => {}
            Err(other) => panic!("{other}"),
            Ok(keeper) => keeper.close().await,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// No address, and nobody there, are told apart.
#[tokio::test]
async fn nobody_there_is_not_refused() {
    let why = refusal("not an address".to_owned()).await;
    assert!(
        why.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        "{why}"
    );
    let nobody = PostgresOptions::new("postgres://wilco@localhost/none?host=/nowhere");
    let opened = PostgresKeeper::open(nobody).await;
    assert!(matches!(opened.err(), Some(StoreError::Down(why)) if why.contains("cannot be reached")));
}

/// Holds the rows of all acts until it is dropped.
async fn holding(db: &mut PgConnection) -> sqlx::Transaction<'_, sqlx::Postgres> {
    let mut holding = db.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM acts FOR UPDATE")
        .execute(&mut *holding)
        .await
        .expect("locked");
    holding
}

/// When every connection is in use, others are told to come back, in time; and nothing is wrong afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_answers_busy() {
    let database = Database::new();
    let mut options = PostgresOptions::new(database.url());
    options.connections = 2;
    options.wait = Duration::from_millis(100);
    let keeper = PostgresKeeper::open(options).await.expect("it opens");
    let acts = [inserted(&keeper, 1).await, inserted(&keeper, 2).await];

    let mut db = database.raw().await;
    let held = holding(&mut db).await;
    let stuck = acts
        .iter()
        .map(|act| keeper.write(fixed(vec![sample::update(act.clone(), Vec::new())])));
    let others = async {
        let mut watch = database.raw().await;
        waiting(&mut watch, 2).await;
        let write = keeper
            .write(Box::new(|at| vec![sample::insert(sample::prepared(3, at))]))
            .await;
        assert_eq!(write.err(), Some(StoreError::Busy));
        assert_eq!(keeper.act(acts[0].act_id).await, Err(StoreError::Busy));
        assert_eq!(keeper.counts().await, Err(StoreError::Busy));
        held.rollback().await.expect("let go");
    };
    let (stuck, ()) = tokio::join!(join_all(stuck), others);
    for (act, written) in acts.iter().zip(stuck) {
        assert!(matches!(answered(written), Written::Advanced { .. }));
        assert_eq!(read(&keeper, act.act_id).await.version, 2);
    }
    inserted(&keeper, 3).await;
    assert_eq!(keeper.counters().unknown, 0);
    keeper.close().await;
}

/// Waits until so many processes of the server wait for a lock.
async fn waiting(db: &mut PgConnection, wanted: i64) {
    loop {
        let row = sqlx::query(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
        );
        let waiting: i64 = row.fetch_one(&mut *db).await.expect("an answer").get(0);
        if waiting == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A write that waits too long for a row is given up by the server, which undoes it: it is known not to stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_or_a_statement_that_takes_too_long_is_given_up() {
    let database = Database::new();
    for (n, lock_ms, statement_ms) in [(1, 200, 10_000), (2, 10_000, 200)] {
        let mut options = PostgresOptions::new(database.url());
        options.connections = 1;
        options.lock_timeout = Duration::from_millis(lock_ms);
        options.statement_timeout = Duration::from_millis(statement_ms);
        let keeper = PostgresKeeper::open(options).await.expect("it opens");
        let act = inserted(&keeper, n).await;
        let mut db = database.raw().await;
        let held = holding(&mut db).await;
        let write = keeper
            .write(fixed(vec![sample::update(act.clone(), Vec::new())]))
            .await;
        match write {
            Err(StoreError::Busy) => assert_eq!(n, 1),
            Err(StoreError::Down(why)) => assert!(n == 2 && why.contains("statement timeout"), "{why}"),
            other => panic!("{other:?}"),
        }
        held.rollback().await.expect("let go");
        assert_eq!(read(&keeper, act.act_id).await, act);
        // The one connection serves on.
        assert!(keeper.healthy());
        inserted(&keeper, 10 + n).await;
        assert_eq!(keeper.counters().unknown, 0);
        keeper.close().await;
    }
}

/// A name that another transaction has taken and not committed is waited for; when that is undone, the write is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_let_go_again_can_be_taken() {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    inserted(&keeper, 1).await;
    let mut db = database.raw().await;
    let mut other = db.begin().await.expect("a transaction");
    let row = "INSERT INTO journal SELECT act_id, 99, kind, thread, 'payer-201', body, body_sha256, principal, at, hash
               FROM journal WHERE seq = 1";
    sqlx::query(row).execute(&mut *other).await.expect("taken");
    let write = inserted_as(&keeper, 2, |act| act);
    let letting_go = async {
        let mut watch = database.raw().await;
        waiting(&mut watch, 1).await;
        other.rollback().await.expect("let go");
    };
    let (act, ()) = tokio::join!(write, letting_go);
    assert_eq!(read(&keeper, act.act_id).await, act);
    keeper.close().await;
}

/// A write that had to wait is decided anew with an instant after the wait: what ran out meanwhile has run out. So it is also
/// for acts that can be nobody's twin, where the rows are all there is to wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_is_decided_after_the_wait() {
    for twins in [true, false] {
        waits(twins).await;
    }
}

async fn waits(twins: bool) {
    let database = Database::new();
    let keeper = database.keeper_on_its_clock().await;
    let act = inserted_as(&keeper, 1, move |mut act| {
        act.likeness = act.likeness.filter(|_| twins);
        act
    })
    .await;
    let mut db = database.raw().await;
    let mut held = holding(&mut db).await;
    let write = keeper.write(Box::new(move |at| {
        vec![sample::update(sample::claimed(act.clone(), at), Vec::new())]
    }));
    let letting_go = async {
        let mut watch = database.raw().await;
        waiting(&mut watch, 1).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        let clock = sqlx::query("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)");
        let now: i64 = clock.fetch_one(&mut *held).await.expect("the time").get(0);
        held.rollback().await.expect("let go");
        now
    };
    let (written, let_go_at) = tokio::join!(write, letting_go);
    let Written::Advanced { at, acts, .. } = answered(written) else {
        panic!("nothing is in the way")
    };
    assert!(at.0 >= let_go_at, "{} before {let_go_at}", at.0);
    let claimed_at = acts[0].execution().map(|e| e.claim.claimed_at);
    assert_eq!(claimed_at, Some(at));
    keeper.close().await;
}
