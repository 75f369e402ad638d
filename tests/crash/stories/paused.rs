//! A process that stands still while its deadline passes, as a suspended machine or a stalled disk makes it, and then goes
//! on where it stood.
//!
//! The daemon stops itself (SIGSTOP) at a named place, an hour goes by on its clock, and somebody lets it go on.

use std::time::Duration;

use wilco_api::v1::State;
use wilco_failpoint::{CLOCK_VARIABLE, VARIABLE};
use wilco_tests::daemon::serve;
use wilco_tests::lines::slot;
use wilco_tests::process::run;
use wilco_tests::{Daemon, Payment, Setup, until};

use crate::support::{act, is_done_as_asked, nothing_was_paid, ok, prepared_act, thread_passes};

/// How long a handoff stays open; and how long everything stands still.
const HANDOFF_AGE_S: u64 = 3_600;
const STANDSTILL_S: u64 = 2 * HANDOFF_AGE_S;

/// Stops at `point` in the middle of a commit; the handoff's time runs out meanwhile. Returns the daemon as it is once it
/// goes on, and what was prepared.
async fn stands_still_at(point: &str) -> (Daemon, Payment, wilco_api::v1::PrepareReply) {
    let setup = Setup::quick()
        .failing()
        .lab_apart()
        .set("acts.handoff_age_s", &HANDOFF_AGE_S.to_string())
        .set("acts.wait_s", "2");
    let mut daemon = Daemon::start_with(setup).await;
    let clock = daemon.data().join("clock-ahead");
    write(&clock, "0");
    let armed = format!("{point}=stop");
    daemon.relaunch(&[(VARIABLE, &armed), (CLOCK_VARIABLE, &clock.display().to_string())]);
    until("the daemon", async || daemon.answers().then_some(())).await;

    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    let pid = daemon.process().pid();
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("it was to stand still at {point}: {answer:?}"),
        () = until(point, async || stopped(pid).then_some(())) => {}
    }
    // While it stands still, nobody else can have its folder.
    let mut second = serve(&daemon.data());
    second.args(["--listen", "127.0.0.1:0"]);
    let refused = run(second).await;
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    write(&clock, &STANDSTILL_S.to_string());
    daemon.process().go_on();
    (daemon, payment, prepared)
}

/// Before the claim, before the permit and before the check at the socket: the yes came too late, and no byte leaves.
#[tokio::test]
async fn past_its_deadline_nothing_leaves() {
    for point in [
        "commit.ready",
        "commit.claim_written",
        "execute.permit",
        "send.connected",
    ] {
        let (daemon, _, prepared) = stands_still_at(point).await;
        let scheduler = daemon.scheduler();
        let act_id = prepared_act(&prepared).act_id;
        let ended = scheduler.until_state(&act_id, &[State::Failed]).await;
        assert_eq!(slot(&ended.close, "why"), "EXPIRED", "{point}: {}", ended.close);
        nothing_was_paid(&daemon).await;
        let again = ok(scheduler
            .confirm(&prepared, "scheduler-2")
            .await
            .or_else(|refused| {
                // A yes that was never claimed is refused; one that was is answered with its FL.
                assert_eq!(
                    (point, refused.reason.as_str()),
                    ("commit.ready", "REFUSED"),
                    "{refused:?}"
                );
                Ok::<_, Box<wilco_tests::Refused>>(Default::default())
            }));
        assert!(again.reply.is_empty() || again.reply == ended.close, "{again:?}");
        thread_passes(&scheduler, "scheduler").await;
        nothing_was_paid(&daemon).await;
    }
}

/// Between the check and the first byte no program can know that it stood still: the byte leaves late. It is one payment
/// all the same, and it is reported as what it is.
#[tokio::test]
async fn between_the_check_and_the_first_byte_it_is_one_payment_and_the_truth() {
    for point in [
        "send.may_send",
        "send.answered",
        "settle.outcome",
        "settle.written",
    ] {
        let (mut daemon, payment, prepared) = stands_still_at(point).await;
        let act_id = prepared_act(&prepared).act_id;
        let scheduler = daemon.scheduler();
        let ended = scheduler
            .until_state(&act_id, &[State::Done, State::Failed])
            .await;
        assert_eq!(ended.state(), State::Done, "{point}: {}", ended.close);
        let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
        thread_passes(&scheduler, "scheduler").await;
        // Nor does a start after it pay again.
        let clock = daemon.data().join("clock-ahead").display().to_string();
        daemon.relaunch(&[(CLOCK_VARIABLE, &clock)]);
        until("the daemon", async || daemon.answers().then_some(())).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let scheduler = daemon.scheduler();
        let now = act(ok(scheduler.act(&act_id).await).act);
        assert_eq!((now.state(), &now.close), (State::Done, &committed.reply));
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
}

/// Stopped from outside, again and again, while payments are under way: each ends once, as the book says.
#[tokio::test]
async fn stopped_at_any_moment_each_payment_ends_once() {
    let mut daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let scheduler = daemon.scheduler();
    for number in 1..=12u32 {
        let payment = Payment::number(number);
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        let paid = async {
            let an = format!("scheduler-{}", 1_000 + number);
            ok(scheduler.confirm(&prepared, &an).await)
        };
        let process = daemon.process();
        let paused = async {
            tokio::time::sleep(Duration::from_millis(u64::from(number) * 2)).await;
            process.pause();
            tokio::time::sleep(Duration::from_millis(150)).await;
            process.go_on();
        };
        let (committed, ()) = tokio::join!(paid, paused);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
    thread_passes(&scheduler, "scheduler").await;
}

/// Whether a process stands still by a signal: proc(5).
pub fn stopped(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    text.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('T'))
}

fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
