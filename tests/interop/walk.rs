//! Threads of a real daemon, on every path a handoff can take, through the package's own `check_thread`: at each step,
//! and at the end.

use serde_json::{Value, json};
use wilco_api::v1::{CancelRequest, State};
use wilco_tests::caller::yes;
use wilco_tests::lab::{CONSENTS, PAYMENTS};
use wilco_tests::{Caller, Daemon, Payment, Setup, cancel_line, decline};

use crate::oracle::Oracle;

/// The package looks at a thread.
struct Look {
    oracle: Oracle,
    caller: Caller,
    threads: u32,
    looks: u32,
}

impl Look {
    /// Fails unless the package finds nothing wrong with the thread as it stands, in or without its profile, and has as
    /// many remarks as the daemon's own view.
    async fn at(&mut self, thread: &str) -> Vec<String> {
        let view = self
            .caller
            .thread(thread)
            .await
            .unwrap_or_else(|refused| panic!("{refused:?}"));
        let ask = |profile: Value| json!({ "f": "check-thread", "profile": profile, "lines": view.lines, "now": "20261002T1200Z" });
        let answers = self.oracle.ask(&[ask(json!("pay")), ask(Value::Null)]);
        for answer in answers {
            assert_eq!(
                answer["problems"],
                json!([]),
                "{thread}: {answer}\n{:#?}",
                view.lines
            );
            assert_eq!(
                answer["notes"],
                json!(view.notes.len()),
                "{thread}: {answer}\n{:?}",
                view.notes
            );
        }
        assert_eq!(view.problems, [], "{thread}");
        self.looks += 1;
        view.lines
    }

    /// The kinds of the lines of a finished thread.
    async fn ends_as(&mut self, thread: &str, kinds: &[&str]) {
        let lines = self.at(thread).await;
        let seen: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(seen, kinds, "{thread}: {lines:#?}");
        self.threads += 1;
    }
}

#[track_caller]
fn ok<T>(answer: wilco_tests::caller::Answer<T>) -> T {
    answer.unwrap_or_else(|refused| panic!("{refused:#?}"))
}

#[tokio::test]
async fn every_path_is_a_thread_the_package_accepts() {
    let daemon = Daemon::start_with(Setup::quick().set("adapters.bank.settle_window_s", "3")).await;
    let scheduler = daemon.scheduler();
    let mut look = Look {
        oracle: Oracle::start(),
        caller: daemon.scheduler(),
        threads: 0,
        looks: 0,
    };
    let number = std::cell::Cell::new(100u32);
    let next = || {
        number.set(number.get() + 10);
        Payment::number(number.get())
    };
    let id = |payment: &Payment, n: u32| format!("scheduler-{}", payment.number + n);
    let act_id = |prepared: &wilco_api::v1::PrepareReply| {
        prepared
            .act
            .as_ref()
            .map(|a| a.act_id.clone())
            .unwrap_or_default()
    };

    // Done, and a cancel that comes too late.
    let p = next();
    let rb = ok(scheduler.prepare_in("done", &p.ho()).await);
    look.at("done").await;
    ok(scheduler.confirm(&rb, &id(&p, 1)).await);
    look.at("done").await;
    ok(scheduler.cancel_in("done", &cancel_line(&p, &id(&p, 2))).await);
    look.ends_as("done", &["HO", "RB", "AN", "DN", "CX"]).await;

    // Abandoned; and once more, after it was.
    let p = next();
    ok(scheduler.prepare_in("cancelled", &p.ho()).await);
    ok(scheduler
        .cancel_in("cancelled", &cancel_line(&p, &id(&p, 1)))
        .await);
    look.at("cancelled").await;
    ok(scheduler
        .cancel_in("cancelled", &cancel_line(&p, &id(&p, 2)))
        .await);
    look.ends_as("cancelled", &["HO", "RB", "CX", "AN", "CX", "AN"])
        .await;

    // Declined, stated anew, done.
    let p = next();
    let rb = ok(scheduler.prepare_in("declined", &p.ho()).await);
    let mut no = yes(&rb, "");
    no.confirmation = decline(&rb.statement, &id(&p, 1));
    ok(scheduler.commit(no).await);
    look.at("declined").await;
    let rb = ok(scheduler.prepare_in("declined", &p.ho()).await);
    look.at("declined").await;
    ok(scheduler.confirm(&rb, &id(&p, 2)).await);
    look.ends_as("declined", &["HO", "RB", "AN", "RB", "AN", "DN"])
        .await;

    // Held, and cancelled, because nothing else can be done with it.
    let p = next();
    daemon.bank().fault(CONSENTS, "wrong-account", 1, 0.0).await;
    ok(scheduler.prepare_in("held", &p.ho()).await);
    look.at("held").await;
    ok(scheduler.cancel_in("held", &cancel_line(&p, &id(&p, 1))).await);
    look.ends_as("held", &["HO", "RB", "CX", "AN"]).await;

    // Refused: by rule, by the bank, and what does not validate at all, which never enters the thread.
    let p = next();
    ok(scheduler
        .prepare_in("refused", &p.ho().replace(" rb=exec", ""))
        .await);
    look.at("refused").await;
    let p = next();
    daemon.bank().fault(CONSENTS, "refuse", 1, 0.0).await;
    ok(scheduler.prepare_in("refused", &p.ho()).await);
    let p = next();
    ok(scheduler
        .prepare_in("refused", &p.ho().replace("cur=GBP", "cur=XBT"))
        .await);
    ok(scheduler.cancel_in("refused", &cancel_line(&p, &id(&p, 1))).await);
    look.ends_as("refused", &["HO", "UN", "HO", "UN"]).await;

    // A cancel that was there first.
    let p = next();
    ok(scheduler.prepare_in("tombstone", &next().ho()).await);
    ok(scheduler
        .cancel_in("tombstone", &cancel_line(&p, &id(&p, 1)))
        .await);
    look.at("tombstone").await;
    ok(scheduler.prepare_in("tombstone", &p.ho()).await);
    look.ends_as("tombstone", &["HO", "RB", "HO", "CX", "AN", "UN"])
        .await;

    // Superseded, read back already, and named after it was done.
    let (old, new) = (next(), next());
    let re = |payment: &Payment, re: &str| payment.ho().replace(" from=", &format!(" re={re} from="));
    let rb = ok(scheduler.prepare_in("superseded", &old.ho()).await);
    let old_rb = rb.statement.split(' ').nth(2).unwrap_or_default().to_owned();
    ok(scheduler.prepare_in("superseded", &re(&next(), &old.id())).await);
    look.at("superseded").await;
    let rb = ok(scheduler.prepare_in("superseded", &re(&new, &old_rb)).await);
    look.at("superseded").await;
    ok(scheduler.confirm(&rb, &id(&new, 1)).await);
    let new_rb = rb.statement.split(' ').nth(2).unwrap_or_default().to_owned();
    ok(scheduler.prepare_in("superseded", &re(&next(), &new_rb)).await);
    look.ends_as(
        "superseded",
        &["HO", "RB", "HO", "UN", "UN", "HO", "RB", "AN", "DN", "HO", "UN"],
    )
    .await;

    // Refused by the bank at the last step; lost on the way and cancelled meanwhile; found again.
    let p = next();
    let rb = ok(scheduler.prepare_in("failed", &p.ho()).await);
    daemon.bank().fault(PAYMENTS, "refuse", 1, 0.0).await;
    ok(scheduler.confirm(&rb, &id(&p, 1)).await);
    look.ends_as("failed", &["HO", "RB", "AN", "FL"]).await;
    let p = next();
    let rb = ok(scheduler.prepare_in("lost", &p.ho()).await);
    daemon.bank().fault(PAYMENTS, "drop-before", 1, 0.0).await;
    let mut request = yes(&rb, &id(&p, 1));
    request.wait_s = 1;
    ok(scheduler.commit(request).await);
    look.at("lost").await;
    let cancel = CancelRequest {
        thread: "lost".into(),
        cx: cancel_line(&p, &id(&p, 2)),
        wait_s: 60,
    };
    ok(scheduler.cancel_request(cancel).await);
    scheduler.until_state(&act_id(&rb), &[State::Failed]).await;
    look.ends_as("lost", &["HO", "RB", "AN", "FL", "CX", "AN"]).await;
    let p = next();
    let rb = ok(scheduler.prepare_in("found", &p.ho()).await);
    daemon.bank().fault(PAYMENTS, "late", 1, 0.3).await;
    let mut request = yes(&rb, &id(&p, 1));
    request.wait_s = 1;
    ok(scheduler.commit(request).await);
    let cancel = CancelRequest {
        thread: "found".into(),
        cx: cancel_line(&p, &id(&p, 2)),
        wait_s: 60,
    };
    ok(scheduler.cancel_request(cancel).await);
    scheduler.until_state(&act_id(&rb), &[State::Done]).await;
    look.ends_as("found", &["HO", "RB", "AN", "DN", "CX"]).await;

    // Done otherwise than stated: reported as it ran.
    let p = next();
    let rb = ok(scheduler.prepare_in("mismatch", &p.ho()).await);
    daemon.bank().fault(PAYMENTS, "wrong-amount", 1, 0.0).await;
    let committed = ok(scheduler.confirm(&rb, &id(&p, 1)).await);
    assert_eq!(committed.act.map(|a| a.verdict), Some("mismatch".into()));
    look.ends_as("mismatch", &["HO", "RB", "AN", "DN"]).await;
    let undo = next().ho().replace("ask=PAY", "ask=UNDO ctx=payer-0");
    ok(scheduler.prepare_in("mismatch", &undo).await);
    look.ends_as("mismatch", &["HO", "RB", "AN", "DN", "HO", "UN"])
        .await;

    // A handoff whose time is over when it comes.
    ok(scheduler
        .prepare_in("late", &next().with("exp", "20200101T0000Z").ho())
        .await);
    look.ends_as("late", &["HO", "UN"]).await;

    println!("{} threads, {} looks", look.threads, look.looks);
    assert_eq!(look.threads, 13);
}
