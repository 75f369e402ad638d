//! The disk is full: what cannot be written is not done, and what was done is not forgotten. A store whose last write
//! went wrong and that cannot be read back takes no writes until it can be read back and written to again.

use wilco_api::v1::State;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::{Daemon, Payment, Setup, WIRES};

use crate::errors::row;
use crate::support::{
    act, committed_act, is_done_as_asked, nothing_was_paid, ok, prepared_act, thread_passes,
};

async fn daemon() -> Daemon {
    Daemon::start_with(Setup::quick().outlives_full_disk().lab_apart()).await
}

/// Without a claim on disk nothing is sent. Started again with room, the same commit pays.
#[tokio::test]
async fn without_a_claim_on_disk_nothing_is_sent() {
    let mut daemon = daemon().await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.fill_disk();
    for wire in WIRES {
        let caller = scheduler.over(wire);
        row("STORE_DOWN", wire, caller.confirm(&prepared, "scheduler-2").await);
        row("STORE_DOWN", wire, caller.prepare(&Payment::number(7).ho()).await);
    }
    assert_eq!(scheduler.read("/readyz").await.status, 503);
    assert_eq!(scheduler.read("/healthz").await.status, 200);
    nothing_was_paid(&daemon).await;
    daemon.free_disk();
    daemon.restart().await;
    let scheduler = daemon.scheduler();
    let again = ok(scheduler.prepare(&payment.ho()).await);
    assert_eq!((again.reply, again.replayed), (prepared.reply.clone(), true));
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    thread_passes(&scheduler, "scheduler").await;
}

/// The disk fills up while the bank is busy: what it did cannot be written, so nobody is told that it was done. Started
/// again with room, it is found out and reported.
#[tokio::test]
async fn an_outcome_that_cannot_be_written_is_not_claimed() {
    let mut daemon = daemon().await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 0.5).await;
    let filling = async {
        daemon.bank().paid(&payment.reference).await;
        daemon.fill_disk();
    };
    let mut request = wilco_tests::caller::yes(&prepared, "scheduler-2");
    request.wait_s = 3;
    let (early, ()) = tokio::join!(scheduler.commit(request), filling);
    match early {
        Ok(early) => {
            assert_eq!(early.reply, "", "{early:#?}");
            assert!(matches!(
                committed_act(&early).state(),
                State::Executing | State::InDoubt
            ));
        }
        refused => {
            row("STORE_DOWN", WIRES[0], refused);
        }
    }
    daemon.free_disk();
    daemon.restart().await;
    let scheduler = daemon.scheduler();
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    let now = act(ok(scheduler.act(&prepared_act(&prepared).act_id).await).act);
    assert_eq!(now.close, committed.reply);
    thread_passes(&scheduler, "scheduler").await;
}
