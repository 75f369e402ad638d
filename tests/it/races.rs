//! Many callers at once, callers that hang up, and callers that change their minds.

use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt;
use wilco_api::v1::State;
use wilco_tests::lab::{A_MOMENT, PAYMENTS};
use wilco_tests::lines::slot;
use wilco_tests::{Daemon, Payment, Setup, WIRES, Wire, cancel_line};

use crate::support::{act, committed_act, is_done_as_asked, ok, paid_once, prepared_act, thread_passes};

/// Thirty-two commits of one token over eight connections of both kinds, with a bank that is quick or takes its time:
/// one payment, one line, given to all of them.
#[tokio::test]
async fn many_commits_are_one_payment() {
    let daemon = Daemon::start().await;
    let callers: Vec<_> = (0..8).map(|n| daemon.caller("scheduler", WIRES[n % 2])).collect();
    for round in 0..8 {
        let payment = Payment::number(100 + round);
        let an_id = format!("scheduler-{}", 200 + round);
        let prepared = ok(daemon.scheduler().prepare(&payment.ho()).await);
        if round % 2 == 0 {
            daemon.bank().fault(PAYMENTS, "slow", 1, 0.1).await;
        }
        let commits = (0..32).map(|n| callers[n % 8].confirm(&prepared, &an_id));
        let answers: Vec<_> = join_all(commits).await.into_iter().map(ok).collect();
        let book = daemon.bank().book().await;
        for answer in &answers {
            is_done_as_asked(&payment, answer, &book);
            assert_eq!(answer.reply, answers[0].reply);
        }
        let first = answers.iter().filter(|a| !a.replayed).count();
        assert_eq!(first, 1, "one of them was the first");
    }
    assert_eq!(daemon.bank().book().await.payments().len(), 8);
    let lines = thread_passes(&daemon.scheduler(), "scheduler").await;
    assert_eq!(lines.len(), 8 * 4, "{lines:#?}");
}

/// The same handoff from many at once is one act with one statement.
#[tokio::test]
async fn many_prepares_are_one_act() {
    let daemon = Daemon::start().await;
    let payment = Payment::seed();
    let callers: Vec<_> = (0..8).map(|n| daemon.caller("scheduler", WIRES[n % 2])).collect();
    let line = payment.ho();
    let prepares = (0..16).map(|n| callers[n % 8].prepare(&line));
    let answers: Vec<_> = join_all(prepares).await.into_iter().map(ok).collect();
    assert!(
        answers
            .iter()
            .all(|a| a.reply == answers[0].reply && a.token == answers[0].token)
    );
    assert_eq!(ok(callers[0].acts(&[]).await).acts.len(), 1);
    let committed = ok(callers[0].confirm(&answers[15], "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// A commit and a cancel of the same act, let go together: either the cancel wins and nothing is paid, or the commit
/// does and the cancel is told so. Never both, never neither.
#[tokio::test]
async fn a_commit_and_a_cancel_never_both_win() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let (mut won, mut lost) = (0, 0);
    for round in 0..24u32 {
        let payment = Payment::number(100 + round);
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        let (committer, canceller) = (
            daemon.caller("scheduler", WIRES[(round % 2) as usize]),
            daemon.caller("scheduler", WIRES[(round / 2 % 2) as usize]),
        );
        // Both connections are up before the race.
        ok(committer.acts(&[]).await);
        ok(canceller.acts(&[]).await);
        let an_id = format!("scheduler-{}", 200 + round);
        let cx = cancel_line(&payment, &format!("scheduler-{}", 300 + round));
        let head_start = |n: u32| tokio::time::sleep(Duration::from_millis(u64::from(n)));
        let (committed, cancelled) = tokio::join!(
            async {
                head_start(if round % 3 == 0 { 4 } else { 0 }).await;
                committer.confirm(&prepared, &an_id).await
            },
            async {
                head_start(round % 6).await;
                canceller.cancel(&cx).await
            }
        );
        let cancelled = ok(cancelled);
        let book = daemon.bank().book().await;
        match committed {
            Ok(committed) => {
                won += 1;
                is_done_as_asked(&payment, &committed, &book);
                assert_eq!(
                    cancelled.reply, committed.reply,
                    "the cancel is told what was done"
                );
            }
            Err(refused) => {
                lost += 1;
                assert_eq!(refused.reason, "CANCELLED", "{refused:?}");
                assert!(
                    cancelled.reply.starts_with("RW1 AN payer-"),
                    "{}",
                    cancelled.reply
                );
                assert_eq!(slot(&cancelled.reply, "val"), "Y");
                assert_eq!(refused.field("line"), cancelled.reply);
                assert_eq!(book.payments_of(&payment.reference).len(), 0);
            }
        }
        let now = act(ok(scheduler.act(&prepared_act(&prepared).act_id).await).act);
        assert_eq!(act(cancelled.act).state(), now.state());
    }
    println!("commit won {won}, cancel won {lost}");
    assert_eq!(daemon.bank().book().await.payments().len(), won);
    thread_passes(&scheduler, "scheduler").await;
}

/// The caller hangs up in the middle of a commit, over gRPC by cancelling the call, over HTTP by closing the socket:
/// that changes nothing.
#[tokio::test]
async fn a_caller_that_hangs_up_changes_nothing() {
    let daemon = Daemon::start_with(Setup::quick().set("adapters.bank.settle_window_s", "8")).await;
    let scheduler = daemon.scheduler();

    let payment = Payment::number(1);
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon
        .bank()
        .fault(PAYMENTS, "late", 1, A_MOMENT.as_secs_f64())
        .await;
    let act_id = prepared_act(&prepared).act_id;
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-51") => panic!("not known yet: {answer:?}"),
        _ = scheduler.until_state(&act_id, &[State::Executing, State::InDoubt]) => {}
    }
    // Dropped: tonic resets the stream. Nobody asks again; the act is finished all the same.
    let done = scheduler.until_state(&act_id, &[State::Done]).await;
    paid_once(&payment, &done, &daemon.bank().book().await);

    let payment = Payment::number(2);
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 0.5).await;
    let body = serde_json::to_string(&wilco_tests::caller::yes(&prepared, "scheduler-52")).expect("JSON");
    let address = daemon.url().trim_start_matches("http://");
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("connects");
    let head = format!(
        "POST /v1/commit HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        daemon.key("scheduler"),
        body.len()
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    let act_id = prepared_act(&prepared).act_id;
    scheduler
        .until_state(&act_id, &[State::Executing, State::InDoubt, State::Done])
        .await;
    drop(socket);
    let done = scheduler.until_state(&act_id, &[State::Done]).await;
    paid_once(&payment, &done, &daemon.bank().book().await);
    for wire in [Wire::Json, Wire::Grpc] {
        let committed = ok(scheduler.over(wire).confirm(&prepared, "scheduler-52").await);
        assert_eq!((&committed.reply, committed.replayed), (&done.close, true));
        assert_eq!(committed_act(&committed).state(), State::Done);
    }
    thread_passes(&scheduler, "scheduler").await;
}
