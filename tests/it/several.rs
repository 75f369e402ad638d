//! Several daemons on one PostgreSQL database, and one bank whose book judges: whatever one of them has begun, any other
//! goes on with, and each answers as if there were only one.

use std::time::Duration;

use futures::future::join_all;
use wilco_api::v1::State;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::lines::slot;
use wilco_tests::postgres::{Cluster, Database, server};
use wilco_tests::{Bank, Daemon, LabProcess, Payment, Setup, WIRES, cancel_line, confirmation};

use crate::support::{act, committed_act, is_done_as_asked, ok, prepared_act, refused, thread_passes};

/// Daemons with a data folder each, the same database, the same token keys and the same bank.
struct Fleet {
    daemons: Vec<Daemon>,
    lab: LabProcess,
    // Removed after the daemons.
    _database: Database,
}

impl Fleet {
    async fn of(count: usize) -> Fleet {
        let server = server().unwrap_or_else(|why| panic!("{why}"));
        Fleet::on(&server, count).await
    }

    async fn on(server: &str, count: usize) -> Fleet {
        let database = Database::create(server).unwrap_or_else(|why| panic!("{why}"));
        let lab = LabProcess::start(&[]).await;
        let setup = Setup::quick()
            .lab_at(lab.url())
            .arg("--database-url")
            .arg(database.url())
            .set("acts.execution_deadline_s", "2")
            .set("adapters.bank.timeout_s", "2")
            .set("recovery.takeover_after_s", "1")
            .set("recovery.poll_interval_ms", "50");
        let mut daemons: Vec<Daemon> = Vec::new();
        for _ in 0..count {
            let setup = match daemons.first() {
                None => setup.clone(),
                // The first made the keys.
                Some(first) => {
                    let file = first.data().join("token.key");
                    setup.clone().set("store.token_key_file", &format!("{file:?}"))
                }
            };
            daemons.push(Daemon::start_with(setup).await);
        }
        Fleet {
            daemons,
            lab,
            _database: database,
        }
    }

    fn bank(&self) -> Bank {
        self.lab.bank()
    }

    /// Every daemon shows the same act and the same thread, which passes.
    async fn agrees(&self, act_id: &str) {
        let mut seen = Vec::new();
        for daemon in &self.daemons {
            let scheduler = daemon.scheduler();
            let lines = thread_passes(&scheduler, "scheduler").await;
            seen.push((act(ok(scheduler.act(act_id).await).act), lines));
        }
        assert!(seen.iter().all(|s| *s == seen[0]), "{seen:#?}");
    }
}

/// Prepared at one, confirmed at another, asked for again at a third: one payment, and the same bytes everywhere.
#[tokio::test]
async fn what_one_prepared_another_commits() {
    let fleet = Fleet::of(3).await;
    let [first, second, third] = [0, 1, 2].map(|n| fleet.daemons[n].scheduler());
    let payment = Payment::seed();
    let prepared = ok(first.prepare(&payment.ho()).await);
    let again = ok(second.prepare(&payment.ho()).await);
    assert!(again.replayed);
    assert_eq!((&again.reply, &again.token), (&prepared.reply, &prepared.token));

    let committed = ok(second.confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &fleet.bank().book().await);
    for wire in WIRES {
        let again = ok(third.over(wire).confirm(&prepared, "scheduler-2").await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
        let again = ok(first.over(wire).prepare(&payment.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
    }
    is_done_as_asked(&payment, &committed, &fleet.bank().book().await);
    fleet.agrees(&committed_act(&committed).act_id).await;
}

/// Prepared at all of them at once, then confirmed at all of them at once, while the bank takes its time: one act, one
/// statement, one payment, one line.
#[tokio::test]
async fn all_of_them_at_once_are_one() {
    let fleet = Fleet::of(3).await;
    let callers: Vec<_> = (0..12)
        .map(|n| fleet.daemons[n % 3].caller("scheduler", WIRES[n % 2]))
        .collect();
    for round in 0..4 {
        let payment = Payment::number(10 + round);
        let line = payment.ho();
        let prepares = callers.iter().map(|caller| caller.prepare(&line));
        let prepared: Vec<_> = join_all(prepares).await.into_iter().map(ok).collect();
        let same = prepared
            .iter()
            .all(|p| (&p.reply, &p.token) == (&prepared[0].reply, &prepared[0].token));
        assert!(same, "{prepared:#?}");

        fleet.bank().fault(PAYMENTS, "slow", 1, 0.3).await;
        let an_id = format!("scheduler-{}", 100 + round);
        let commits = callers.iter().map(|caller| caller.confirm(&prepared[0], &an_id));
        let committed: Vec<_> = join_all(commits).await.into_iter().map(ok).collect();
        let book = fleet.bank().book().await;
        for answer in &committed {
            is_done_as_asked(&payment, answer, &book);
            assert_eq!(answer.reply, committed[0].reply);
        }
        assert_eq!(
            committed.iter().filter(|a| !a.replayed).count(),
            1,
            "one of them was the first"
        );
        fleet.agrees(&committed_act(&committed[0]).act_id).await;
    }
    assert_eq!(fleet.bank().book().await.payments().len(), 4);
}

/// Cancelled at another than it was prepared at: before the confirmation the cancel wins; while the bank is at it, the cancel
/// is told the truth once it is known.
#[tokio::test]
async fn what_one_prepared_another_cancels() {
    let fleet = Fleet::of(2).await;
    let [here, there] = [0, 1].map(|n| fleet.daemons[n].scheduler());
    let abandoned = Payment::number(5);
    let prepared = ok(here.prepare(&abandoned.ho()).await);
    let cx = cancel_line(&abandoned, "scheduler-50");
    let cancelled = ok(there.cancel(&cx).await);
    assert_eq!(slot(&cancelled.reply, "val"), "Y");
    refused(here.confirm(&prepared, "scheduler-51").await, "CANCELLED");
    assert_eq!(ok(here.cancel(&cx).await).reply, cancelled.reply);

    let payment = Payment::seed();
    let prepared = ok(here.prepare(&payment.ho()).await);
    fleet.bank().fault(PAYMENTS, "slow", 1, 1.0).await;
    let committing = here.confirm(&prepared, "scheduler-2");
    let cancelling = async {
        fleet.bank().paid(&payment.reference).await;
        there.cancel(&cancel_line(&payment, "scheduler-3")).await
    };
    let (committed, cancelled) = tokio::join!(committing, cancelling);
    let (committed, cancelled) = (ok(committed), ok(cancelled));
    is_done_as_asked(&payment, &committed, &fleet.bank().book().await);
    assert_eq!(cancelled.reply, committed.reply);
    assert_eq!(fleet.bank().book().await.payments().len(), 1);
    fleet.agrees(&committed_act(&committed).act_id).await;
}

/// A cancel that comes to one before its handoff comes to another leaves a tombstone for all.
#[tokio::test]
async fn a_tombstone_stands_everywhere() {
    let fleet = Fleet::of(2).await;
    let [here, there] = [0, 1].map(|n| fleet.daemons[n].scheduler());
    let payment = Payment::seed();
    let cancelled = ok(here.cancel(&cancel_line(&payment, "scheduler-3")).await);
    assert_eq!(slot(&cancelled.reply, "val"), "Y");
    let buried = ok(there.prepare(&payment.ho()).await);
    assert_eq!(slot(&buried.reply, "why"), "REVOKED");
    let again = ok(here.prepare(&payment.ho()).await);
    assert_eq!((&again.reply, again.replayed), (&buried.reply, true));
    assert!(fleet.bank().book().await.payments().is_empty());
    thread_passes(&there, "scheduler").await;
}

/// The one that was paying is killed; the other takes over once it has watched the claim long enough, asks the bank, and
/// answers whoever comes to it. Started again, the first gives the same answer.
#[tokio::test]
async fn what_a_killed_one_was_paying_another_finishes() {
    // The order was accepted and its answer was on its way; or it never reached the bank's books.
    for (number, fault) in [(1, "slow"), (2, "drop-before")] {
        let mut fleet = Fleet::of(2).await;
        let payment = Payment {
            number,
            ..Payment::seed()
        };
        let scheduler = fleet.daemons[0].scheduler();
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        let act_id = prepared_act(&prepared).act_id;
        fleet.bank().fault(PAYMENTS, fault, 1, 60.0).await;
        tokio::select! {
            answer = scheduler.confirm(&prepared, "scheduler-9") => {
                // A dropped order may be doubted and settled before anybody is killed.
                assert_eq!(fault, "drop-before", "the bank is still busy: {answer:?}");
            }
            _ = scheduler.until_state(&act_id, &[State::Executing, State::InDoubt]) => {
                if fault == "slow" {
                    fleet.bank().paid(&payment.reference).await;
                }
            }
        }
        fleet.daemons[0].kill();

        let other = fleet.daemons[1].scheduler();
        let committed = ok(other.confirm(&prepared, "scheduler-9").await);
        let book = fleet.bank().book().await;
        match committed_act(&committed).state() {
            State::Done => is_done_as_asked(&payment, &committed, &book),
            State::Failed => {
                assert_eq!(fault, "drop-before");
                assert!(book.payments_of(&payment.reference).is_empty());
            }
            other => panic!("{other:?}: {committed:#?}"),
        }
        fleet.daemons[0].restart().await;
        let again = ok(fleet.daemons[0]
            .scheduler()
            .confirm(&prepared, "scheduler-9")
            .await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
        assert_eq!(book.payments(), fleet.bank().book().await.payments());
        fleet.agrees(&act_id).await;
    }
}

/// Daemons are killed at moments nobody chose while payments are confirmed at them: each ends as the book says.
#[tokio::test]
async fn killed_at_any_moment_each_payment_ends_as_the_book_says() {
    let mut fleet = Fleet::of(2).await;
    let mut seen = Vec::new();
    for round in 0..6_u32 {
        let n = (round % 2) as usize;
        let scheduler = fleet.daemons[n].scheduler();
        let payment = Payment::number(100 + round);
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        fleet.bank().fault(PAYMENTS, "slow", 1, 0.03).await;
        let an_id = format!("scheduler-{}", 200 + round);
        let pause = Duration::from_millis(u64::from(round) * 13);
        let answer = tokio::select! {
            answer = scheduler.confirm(&prepared, &an_id) => answer.ok().map(|c| c.reply),
            () = tokio::time::sleep(pause) => None,
        };
        fleet.daemons[n].kill();
        // Nobody comes back for it: the other one looks after it.
        let other = fleet.daemons[1 - n].scheduler();
        let committed = ok(other.confirm(&prepared, &an_id).await);
        if let Some(reply) = answer {
            assert_eq!(committed.reply, reply, "what was once answered stays so");
        }
        fleet.daemons[n].restart().await;
        fleet.bank().well_again().await;
        seen.push((payment, prepared, an_id, committed.reply));
    }
    let book = fleet.bank().book().await;
    for (payment, prepared, an_id, reply) in seen {
        for daemon in &fleet.daemons {
            let committed = ok(daemon.scheduler().confirm(&prepared, &an_id).await);
            assert_eq!(committed.reply, reply);
            if book.payments_of(&payment.reference).is_empty() {
                assert_eq!(committed_act(&committed).state(), State::Failed);
            } else {
                is_done_as_asked(&payment, &committed, &book);
            }
        }
        fleet.agrees(&prepared_act(&prepared).act_id).await;
    }
}

/// PostgreSQL crashes and comes back while the bank is at an order: the payment is made once, and said so.
#[tokio::test]
async fn the_database_crashes_in_the_middle_of_a_commit() {
    let mut cluster = Cluster::start(&[]).unwrap_or_else(|why| panic!("{why}"));
    let fleet = Fleet::on(&cluster.url(), 2).await;
    let [here, there] = [0, 1].map(|n| fleet.daemons[n].scheduler());
    for round in 0..3 {
        let payment = Payment::number(10 + round);
        let prepared = ok(here.prepare(&payment.ho()).await);
        let act_id = prepared_act(&prepared).act_id;
        fleet.bank().fault(PAYMENTS, "slow", 1, 0.2).await;
        let an_id = format!("scheduler-{}", 100 + round);
        let crashing = async {
            match round {
                // Somewhere in the claim; with the claim made; somewhere in the settling.
                0 => {}
                1 => drop(here.until_state(&act_id, &[State::Executing]).await),
                _ => drop(fleet.bank().paid(&payment.reference).await),
            }
            cluster.crash().unwrap_or_else(|why| panic!("{why}"));
            cluster.start_again().unwrap_or_else(|why| panic!("{why}"));
        };
        let (answer, ()) = tokio::join!(here.confirm(&prepared, &an_id), crashing);
        // Nothing is known where the store was down; the next call knows.
        let committed = loop {
            match there.confirm(&prepared, &an_id).await {
                Ok(committed) if !committed.reply.is_empty() => break committed,
                Ok(_) => {}
                Err(refusal) => assert_eq!(refusal.reason, "STORE_DOWN", "{refusal:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        is_done_as_asked(&payment, &committed, &fleet.bank().book().await);
        match answer {
            Ok(answer) if answer.reply.is_empty() => {}
            Ok(answer) => assert_eq!(answer.reply, committed.reply),
            Err(refusal) => assert_eq!(refusal.reason, "STORE_DOWN", "{refusal:#?}"),
        }
        fleet.agrees(&act_id).await;
    }
    assert_eq!(fleet.bank().book().await.payments().len(), 3);
}

/// What one daemon did is pushed to those who watch at another, and an act's lines are the same in both.
#[tokio::test]
async fn the_thread_of_one_is_the_thread_of_all() {
    let fleet = Fleet::of(2).await;
    let [here, there] = [0, 1].map(|n| fleet.daemons[n].scheduler());
    let mut wanted = Vec::new();
    for n in 0..6_u32 {
        let payment = Payment::number(10 + n);
        let (one, other) = if n % 2 == 0 {
            (&here, &there)
        } else {
            (&there, &here)
        };
        let prepared = ok(one.prepare(&payment.ho()).await);
        let an_id = format!("scheduler-{}", 100 + n);
        let committed = ok(other.confirm(&prepared, &an_id).await);
        wanted.extend([
            payment.ho(),
            prepared.statement.clone(),
            confirmation(&prepared.statement, &an_id),
            committed.reply,
        ]);
    }
    for caller in [&here, &there] {
        assert_eq!(thread_passes(caller, "scheduler").await, wanted);
    }
}
