//! What several stories ask.

use rw1::Profiles;
use wilco_api::v1::{Act, CommitReply, PrepareReply, State};
use wilco_tests::{Caller, Daemon, Payment, Refused};

/// The answer, or the refusal's own words.
#[track_caller]
pub fn ok<T>(answer: Result<T, Box<Refused>>) -> T {
    answer.unwrap_or_else(|refused| panic!("{refused:#?}"))
}

/// The refusal, which must have this reason.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Box<Refused>>, reason: &str) -> Refused {
    match answer {
        Ok(answer) => panic!("not refused: {answer:#?}"),
        Err(refused) => {
            assert_eq!(refused.reason, reason, "{refused:#?}");
            *refused
        }
    }
}

/// The act that came along.
#[track_caller]
pub fn act(act: Option<Act>) -> Act {
    act.unwrap_or_else(|| panic!("an act comes along"))
}

/// The act of a prepare.
#[track_caller]
pub fn prepared_act(prepared: &PrepareReply) -> Act {
    act(prepared.act.clone())
}

/// The act of a commit.
#[track_caller]
pub fn committed_act(committed: &CommitReply) -> Act {
    act(committed.act.clone())
}

/// Fails unless this commit reports the payment as done, exactly as asked, and the book holds it once.
#[track_caller]
pub fn is_done_as_asked(payment: &Payment, committed: &CommitReply, book: &wilco_tests::Book) {
    let act = committed_act(committed);
    assert_eq!(act.state(), State::Done, "{committed:#?}");
    let id = committed.reply.split(' ').nth(2).unwrap_or_default();
    assert_eq!(committed.reply, payment.dn(id));
    assert_eq!(act.close, committed.reply);
    assert_eq!(act.verdict, "match", "{committed:#?}");
    assert_eq!(committed.problems, []);
    paid_once(payment, &act, book);
}

/// Fails unless the book holds this act's payment exactly once, as the act says.
#[track_caller]
pub fn paid_once(payment: &Payment, act: &Act, book: &wilco_tests::Book) {
    let payments = book.payments_of(&payment.reference);
    assert_eq!(payments.len(), 1, "{:#?}", book.payments());
    let booked = &payments[0];
    assert_eq!(booked["instruction_id"], act.reference);
    assert_eq!(booked["amount"], payment.amt);
    assert_eq!(booked["creditor_account"], payment.acct);
    assert_eq!(booked["payment_id"], act.receipt);
}

/// Fails unless the thread's view says, and our own check confirms, that nothing is wrong with it. Returns its lines.
pub async fn thread_passes(caller: &Caller, thread: &str) -> Vec<String> {
    let view = ok(caller.thread(thread).await);
    assert_eq!(view.problems, [], "{:#?}", view.lines);
    let checked = rw1::check_thread(&Profiles::builtin(), None, &view.lines, None);
    assert_eq!(checked.problems, [], "{:#?}", view.lines);
    view.lines
}

/// Fails unless nothing was ever paid.
pub async fn nothing_was_paid(daemon: &Daemon) {
    let book = daemon.bank().book().await;
    assert_eq!(book.payments(), Vec::<serde_json::Value>::new());
    assert_eq!(book.spent(), 0);
}
