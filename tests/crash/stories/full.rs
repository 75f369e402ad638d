//! The disk is full in the middle of a batch: some claims stand, some do not, some outcomes cannot be written. With room
//! again, each yes has paid once, pays now, or is told that it certainly did not.
//!
//! The disk is a limit on the size of the daemon's files (prlimit of util-linux): it needs no root and no mount, and to
//! SQLite a write beyond it fails like one on a full disk.

use std::process::Command;

use wilco_api::v1::State;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::{Daemon, Payment, Setup, WIRES};

use crate::support::{act, is_done_as_asked, ok, prepared_act, thread_passes};

/// How many are confirmed at once.
const BATCH: u32 = 24;

/// After so many payments the disk is full, for each try.
const FULL_AFTER: [usize; 3] = [0, 3, 12];

#[tokio::test]
async fn in_the_middle_of_a_batch() {
    for full_after in FULL_AFTER {
        // With the signal ignored, a write beyond the limit fails; it would end the daemon otherwise.
        let ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
        let mut daemon = Daemon::start_with(Setup::quick().lab_apart().under(&ignoring)).await;
        let scheduler = daemon.scheduler();
        let mut prepared = Vec::new();
        for number in 1..=BATCH {
            let payment = Payment::number(number);
            let statement = ok(scheduler.prepare(&payment.ho()).await);
            prepared.push((payment, statement));
        }
        daemon.bank().fault(PAYMENTS, "slow", BATCH, 0.1).await;
        let confirmed = prepared.iter().enumerate().map(|(at, (payment, statement))| {
            let caller = scheduler.over(WIRES[at % 2]);
            let mut request = wilco_tests::caller::yes(statement, &an(payment));
            request.wait_s = 3;
            async move { caller.commit(request).await }
        });
        let pid = daemon.process().pid();
        let filled = async {
            while daemon.bank().book().await.payments().len() < full_after {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            limit_files(pid, "4096:");
        };
        let (answers, ()) = tokio::join!(futures::future::join_all(confirmed), filled);
        let mut not_done = 0;
        for ((payment, _), answer) in prepared.iter().zip(answers) {
            match answer {
                Ok(answer) if answer.reply.is_empty() => not_done += 1,
                Ok(answer) => is_done_as_asked(payment, &answer, &daemon.bank().book().await),
                Err(refused) => {
                    assert_eq!(refused.reason, "STORE_DOWN", "{refused:?}");
                    not_done += 1;
                }
            }
        }
        assert!(not_done > 0, "the disk was full before all was done");

        limit_files(pid, "unlimited:");
        daemon.restart().await;
        let scheduler = daemon.scheduler();
        for (payment, statement) in &prepared {
            let committed = ok(scheduler.confirm(statement, &an(payment)).await);
            let book = daemon.bank().book().await;
            let now = act(ok(scheduler.act(&prepared_act(statement).act_id).await).act);
            assert_eq!(now.close, committed.reply);
            // A claim that was on the disk although nobody could be told so: nothing was sent under it.
            if now.state() == State::Failed {
                assert_eq!(
                    book.payments_of(&payment.reference),
                    Vec::<serde_json::Value>::new()
                );
            } else {
                is_done_as_asked(payment, &committed, &book);
            }
        }
        thread_passes(&scheduler, "scheduler").await;
    }
}

fn an(payment: &Payment) -> String {
    format!("scheduler-{}", 1_000 + payment.number)
}

fn limit_files(pid: u32, bytes: &str) {
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--fsize={bytes}")])
        .status()
        .unwrap_or_else(|e| panic!("prlimit (of util-linux): {e}"));
    assert!(status.success(), "prlimit: {status}");
}
