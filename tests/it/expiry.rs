//! Time runs out: a late yes is a no, what expired is closed as expired, and what was given before is given again.
//!
//! Statements end on the minute, so these stories share one minute of waiting.

use wilco_api::v1::State;
use wilco_tests::caller::yes;
use wilco_tests::lines::slot;
use wilco_tests::{Daemon, Payment, Setup, WIRES, cancel_line};

use crate::errors::row;
use crate::support::{act, is_done_as_asked, ok, prepared_act, refused, thread_passes};

#[tokio::test]
async fn a_late_yes_is_a_no() {
    let setup = Setup::quick().set("acts.statement_ttl_s", "1").lab_apart();
    let mut daemon = Daemon::start_with(setup).await;
    let scheduler = daemon.scheduler();

    // Five handoffs, all stated within the same minute.
    let (done, late, open, cancelled) = (
        Payment::number(1),
        Payment::number(2),
        Payment::number(3),
        Payment::number(4),
    );
    let mut done_rb = ok(scheduler.prepare(&done.ho()).await);
    if done_rb.expires_in_s < 8 {
        // Too close to the end of this minute to tell the stories in: the next one is whole.
        scheduler
            .until_state(&prepared_act(&done_rb).act_id, &[State::Lapsed])
            .await;
        done_rb = ok(scheduler.prepare(&done.ho()).await);
        assert!(!done_rb.replayed);
    }
    let end = slot(&done_rb.statement, "exp").to_owned();
    let late_rb = ok(scheduler.prepare(&late.ho()).await);
    let open_rb = ok(scheduler.prepare(&open.ho()).await);
    let cancelled_rb = ok(scheduler.prepare(&cancelled.ho()).await);
    let an = ok(scheduler.cancel(&cancel_line(&cancelled, "scheduler-40")).await);
    // One whose handoff ends with its statement: its `exp` is the minute that comes.
    let brief = Payment::number(5).with("exp", &end);
    let brief_rb = ok(scheduler.prepare(&brief.ho()).await);
    assert_eq!(slot(&brief_rb.statement, "exp"), end);
    let committed = ok(scheduler.confirm(&done_rb, "scheduler-10").await);
    for prepared in [&late_rb, &open_rb, &cancelled_rb] {
        assert_eq!(
            slot(&prepared.statement, "exp"),
            end,
            "the stories share one minute"
        );
    }

    let act_id = |prepared: &wilco_api::v1::PrepareReply| prepared_act(prepared).act_id;
    scheduler.until_state(&act_id(&open_rb), &[State::Lapsed]).await;

    for wire in WIRES {
        let caller = scheduler.over(wire);
        let answer = caller.commit(yes(&late_rb, "scheduler-20")).await;
        let reason = answer
            .as_ref()
            .err()
            .map_or("none", |refused| refused.reason.as_str())
            .to_owned();
        assert!(reason.as_str() == "EXPIRED", "a late yes: {answer:#?}");
        let refusal = row(&reason, wire, answer);
        assert_eq!(refusal.field("line"), late_rb.statement);
        assert!(refusal.text.contains("prepare"), "{refusal:?}");
    }
    let failed = scheduler.until_state(&act_id(&brief_rb), &[State::Failed]).await;
    assert_eq!(
        (
            slot(&failed.close, "why"),
            failed.close.starts_with("RW1 FL payer-")
        ),
        ("EXPIRED", true)
    );

    // What was answered before is answered again, after the end and after a restart.
    daemon.restart().await;
    let scheduler = daemon.scheduler();
    for wire in WIRES {
        let caller = scheduler.over(wire);
        let again = ok(caller.confirm(&done_rb, "scheduler-10").await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
        let again = ok(caller.prepare(&done.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
        let again = ok(caller.prepare(&cancelled.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&an.reply, true));
        let again = ok(caller.prepare(&brief.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&failed.close, true));
    }

    // The handoff itself is still open: it is stated anew, the old token is not current any more, the new one pays.
    let anew = ok(scheduler.prepare(&open.ho()).await);
    assert!(!anew.replayed && anew.token != open_rb.token);
    assert_eq!(prepared_act(&anew).attempt, 2);
    let stale = refused(scheduler.confirm(&open_rb, "scheduler-30").await, "DIGEST_STALE");
    assert_eq!(stale.field("statement"), anew.statement);
    let paid = ok(scheduler.confirm(&anew, "scheduler-31").await);
    let book = daemon.bank().book().await;
    is_done_as_asked(&open, &paid, &book);
    is_done_as_asked(&done, &committed, &book);
    assert_eq!(book.payments().len(), 2);
    assert_eq!(
        act(ok(scheduler.act(&act_id(&late_rb)).await).act).state(),
        State::Lapsed
    );
    thread_passes(&scheduler, "scheduler").await;
}
