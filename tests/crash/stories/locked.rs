//! Somebody's tool holds the database's write lock: who cannot write is told so, nothing is done without a claim, and when
//! the lock is let go everything goes on where it was.

use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use wilco_api::v1::State;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::{Daemon, Payment, Setup};

use crate::support::{is_done_as_asked, nothing_was_paid, ok, prepared_act, thread_passes};

/// How many write at once.
const BATCH: u32 = 16;

/// A lock on the daemon's database, as a backup tool or a curious person takes it.
struct Lock(SqliteConnection);

impl Lock {
    async fn take(daemon: &Daemon) -> Lock {
        let file = daemon.data().join("wilco.sqlite");
        let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display()))
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let locked = sqlx::raw_sql("PRAGMA busy_timeout = 20000; BEGIN EXCLUSIVE")
            .execute(&mut connection)
            .await;
        locked.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Lock(connection)
    }

    async fn let_go(mut self) {
        let ended = sqlx::raw_sql("ROLLBACK").execute(&mut self.0).await;
        ended.unwrap_or_else(|e| panic!("the lock: {e}"));
    }
}

/// A whole batch meets the lock: no member is written, none is sent, and each says so. Then the same yeses pay, once each.
#[tokio::test]
async fn at_the_claim() {
    let daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let scheduler = daemon.scheduler();
    let mut prepared = Vec::new();
    for number in 1..=BATCH {
        let payment = Payment::number(number);
        let statement = ok(scheduler.prepare(&payment.ho()).await);
        prepared.push((payment, statement));
    }
    let lock = Lock::take(&daemon).await;
    let refused = prepared.iter().map(|(payment, statement)| {
        let scheduler = scheduler.clone();
        let an = format!("scheduler-{}", 1_000 + payment.number);
        async move { scheduler.confirm(statement, &an).await }
    });
    for answer in futures::future::join_all(refused).await {
        match answer {
            Err(refused) => assert_eq!(refused.reason, "STORE_DOWN", "{refused:?}"),
            Ok(answer) => panic!("confirmed without a claim: {answer:?}"),
        }
    }
    nothing_was_paid(&daemon).await;
    lock.let_go().await;
    for (payment, statement) in &prepared {
        let an = format!("scheduler-{}", 1_000 + payment.number);
        let committed = ok(scheduler.confirm(statement, &an).await);
        is_done_as_asked(payment, &committed, &daemon.bank().book().await);
    }
    thread_passes(&scheduler, "scheduler").await;
}

/// The lock is taken while the bank is busy: what it did is written when it can be, and nothing is sent twice meanwhile.
#[tokio::test]
async fn at_the_outcome() {
    let daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let scheduler = daemon.scheduler();
    let mut prepared = Vec::new();
    for number in 1..=BATCH {
        let payment = Payment::number(number);
        let statement = ok(scheduler.prepare(&payment.ho()).await);
        prepared.push((payment, statement));
    }
    daemon.bank().fault(PAYMENTS, "slow", BATCH, 1.0).await;
    let confirmed = prepared.iter().map(|(payment, statement)| {
        let scheduler = scheduler.clone();
        let an = format!("scheduler-{}", 1_000 + payment.number);
        async move { scheduler.confirm(statement, &an).await }
    });
    let locked = async {
        daemon.bank().paid(&prepared[0].0.reference).await;
        let lock = Lock::take(&daemon).await;
        // Longer than one write waits for the lock: some are tried again.
        tokio::time::sleep(Duration::from_secs(7)).await;
        lock.let_go().await;
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(confirmed), locked);
    for ((payment, statement), answer) in prepared.iter().zip(answers) {
        let an = format!("scheduler-{}", 1_000 + payment.number);
        if let Err(refused) = &answer {
            // One whose claim met the lock.
            assert_eq!(refused.reason, "STORE_DOWN", "{refused:?}");
        }
        let committed = ok(scheduler.confirm(statement, &an).await);
        is_done_as_asked(payment, &committed, &daemon.bank().book().await);
        let act = scheduler
            .until_state(&prepared_act(statement).act_id, &[State::Done])
            .await;
        assert_eq!(act.close, committed.reply);
    }
    thread_passes(&scheduler, "scheduler").await;
}
