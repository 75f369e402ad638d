//! The table of refusals, row by row, over both wires: the same reason, the code and status the table promises, and
//! what a program needs to go on.

use std::fmt::Debug;

use futures::future::join_all;
use tonic::Code;
use wilco_api::v1::{CancelRequest, CommitRequest, State};
use wilco_tests::caller::{Answer, yes};
use wilco_tests::lab::PAYMENTS;
use wilco_tests::{Daemon, Payment, Refused, Setup, WIRES, Wire, cancel_line, decline};

use crate::support::{act, nothing_was_paid, ok, prepared_act};

/// The table as documented: reason, gRPC code, HTTP status, whether to come back.
const TABLE: [(&str, Code, u16, bool); 21] = [
    ("UNAUTHENTICATED", Code::Unauthenticated, 401, false),
    ("NOT_YOURS", Code::PermissionDenied, 403, false),
    ("MALFORMED", Code::InvalidArgument, 422, false),
    ("UNKNOWN_TOKEN", Code::NotFound, 404, false),
    ("UNKNOWN_ACT", Code::NotFound, 404, false),
    ("DIGEST_REQUIRED", Code::FailedPrecondition, 428, false),
    ("CONFIRMATION_REQUIRED", Code::FailedPrecondition, 428, false),
    ("DIGEST_STALE", Code::Aborted, 409, false),
    ("HANDOFF_CONFLICT", Code::AlreadyExists, 409, false),
    ("CANCELLED", Code::FailedPrecondition, 409, false),
    ("REFUSED", Code::FailedPrecondition, 409, false),
    ("SUPERSEDED", Code::FailedPrecondition, 409, false),
    ("HELD", Code::FailedPrecondition, 409, false),
    ("LAPSED", Code::FailedPrecondition, 409, false),
    ("LIMIT", Code::FailedPrecondition, 409, false),
    ("NOT_APPROVED", Code::FailedPrecondition, 409, true),
    ("EXPIRED", Code::FailedPrecondition, 409, false),
    ("HALTED", Code::Unavailable, 503, true),
    ("ADAPTER_DOWN", Code::Unavailable, 503, true),
    ("STORE_DOWN", Code::Unavailable, 503, true),
    ("BUSY", Code::ResourceExhausted, 429, true),
];

/// The refusal, which must be the table's row for `reason` on the wire it came over.
#[track_caller]
pub fn row<T: Debug>(reason: &str, wire: Wire, answer: Answer<T>) -> Refused {
    let refused = match answer {
        Ok(answer) => panic!("{reason} was expected, not {answer:#?}"),
        Err(refused) => *refused,
    };
    let row = TABLE.iter().find(|row| row.0 == reason);
    let (_, code, http, again) = row.unwrap_or_else(|| panic!("{reason} is no row"));
    assert_eq!(refused.reason, reason, "{refused:#?}");
    match wire {
        Wire::Grpc => assert_eq!((refused.code, refused.http), (Some(*code), None), "{refused:#?}"),
        Wire::Json => assert_eq!((refused.code, refused.http), (None, Some(*http)), "{refused:#?}"),
    }
    assert_eq!(refused.retry_after_s.is_some(), *again, "{refused:#?}");
    assert!(!refused.text.is_empty());
    refused
}

/// Both wires must say the same, word for word.
#[track_caller]
fn same(mut rows: Vec<Refused>) -> Refused {
    let (mut one, mut other) = (rows.remove(0), rows.remove(0));
    let first = one.clone();
    for refused in [&mut one, &mut other] {
        (refused.code, refused.http) = (None, None);
        refused.problems = refused.problems.as_array().cloned().unwrap_or_default().into();
    }
    assert_eq!(one, other);
    first
}

/// What is not a handoff we can take is an error that names the field and the slot, and nothing is stored.
#[tokio::test]
async fn what_is_malformed_is_named() {
    let daemon = Daemon::start().await;
    let good = Payment::seed().ho();
    let cases = [
        ("not a line", ""),
        ("RW2 HO scheduler-1 from=scheduler to=payer item=x:1 ask=PAY", ""),
        (&good.replace(" HO scheduler-1", " ST scheduler-1"), ""),
        (&good.replace("to=payer", "to=shipper"), "to"),
        (&good.replace("amt=5400.00", "amt=5400"), "amt"),
        (&good.replace("amt=5400.00", "amt=５４００.００"), "amt"),
        (&good.replace("paid=20261002", "paid=20261302"), "paid"),
        (&format!("{good} colour=red"), "colour"),
        (&format!("{good} out=OK"), "out"),
        (&good.replace(" amt", "  amt"), ""),
        (&format!("{good} amt=1.00"), "amt"),
        (&format!("{good} // {}", "x".repeat(400)), "tail"),
        (&format!("{good} // a\u{202e}b"), "tail"),
    ]
    .map(|(line, slot)| (line.to_owned(), slot));
    for (line, slot) in cases {
        let mut rows = Vec::new();
        for wire in WIRES {
            let refused = row(
                "MALFORMED",
                wire,
                daemon.caller("scheduler", wire).prepare(&line).await,
            );
            assert_eq!(refused.field("field"), "ho", "{line}: {refused:?}");
            assert_eq!(refused.field("slot"), slot, "{line}: {refused:?}");
            rows.push(refused);
        }
        same(rows);
    }
    assert_eq!(ok(daemon.scheduler().acts(&[]).await).acts, []);

    let long = format!("{good} x_note={}", "y".repeat(20_000));
    for wire in WIRES {
        let refused = row(
            "MALFORMED",
            wire,
            daemon.caller("scheduler", wire).prepare(&long).await,
        );
        assert_eq!(refused.field("field"), "ho");
        let spaced = daemon
            .caller("scheduler", wire)
            .prepare_in("month end", &good)
            .await;
        assert_eq!(row("MALFORMED", wire, spaced).field("field"), "thread");
    }
}

/// A confirmation must be the sender's yes to this very statement. Each way in which it is not is named, and pays
/// nothing.
#[tokio::test]
async fn no_bare_token_pays() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let prepared = ok(scheduler.prepare(&Payment::seed().ho()).await);
    let good = yes(&prepared, "scheduler-2");
    let with = |change: fn(&mut CommitRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let cases: [(&str, &str, &str, CommitRequest); 13] = [
        (
            "DIGEST_REQUIRED",
            "statement_sha256",
            "",
            with(|r| r.statement_sha256.clear()),
        ),
        (
            "DIGEST_REQUIRED",
            "statement_sha256",
            "",
            with(|r| (r.statement_sha256, r.confirmation) = Default::default()),
        ),
        (
            "CONFIRMATION_REQUIRED",
            "confirmation",
            "",
            with(|r| r.confirmation.clear()),
        ),
        (
            "DIGEST_STALE",
            "statement_sha256",
            "",
            with(|r| r.statement_sha256 = "0".repeat(64)),
        ),
        (
            "DIGEST_STALE",
            "statement_sha256",
            "",
            with(|r| r.statement_sha256.push('0')),
        ),
        (
            "MALFORMED",
            "confirmation",
            "val",
            with(|r| r.confirmation = r.confirmation.replace("val=Y", "val=APPROVE")),
        ),
        (
            "MALFORMED",
            "confirmation",
            "val",
            with(|r| r.confirmation = r.confirmation.replace("val=Y", "val=1")),
        ),
        (
            "MALFORMED",
            "confirmation",
            "re",
            with(|r| r.confirmation = r.confirmation.replace("re=payer-101", "re=payer-102")),
        ),
        (
            "MALFORMED",
            "confirmation",
            "from",
            with(|r| {
                r.confirmation = r
                    .confirmation
                    .replace("AN scheduler-2", "AN release-2")
                    .replace("from=scheduler", "from=release")
            }),
        ),
        (
            "MALFORMED",
            "confirmation",
            "to",
            with(|r| r.confirmation = r.confirmation.replace("to=payer", "to=human")),
        ),
        (
            "MALFORMED",
            "confirmation",
            "",
            with(|r| r.confirmation = "yes".into()),
        ),
        (
            "UNKNOWN_TOKEN",
            "token",
            "",
            with(|r| r.token = r.token.replace(".1.", ".2.")),
        ),
        (
            "UNKNOWN_TOKEN",
            "token",
            "",
            with(|r| r.token = "x".repeat(5_000)),
        ),
    ];
    for (reason, field, slot, request) in cases {
        let mut rows = Vec::new();
        for wire in WIRES {
            let refused = row(reason, wire, scheduler.over(wire).commit(request.clone()).await);
            assert_eq!(
                (refused.field("field"), refused.field("slot")),
                (field, slot),
                "{refused:#?}"
            );
            if reason.starts_with("DIGEST") || reason.starts_with("CONFIRMATION") {
                assert_eq!(refused.field("statement"), prepared.statement);
                assert_eq!(refused.field("statement_sha256"), prepared.statement_sha256);
            }
            rows.push(refused);
        }
        same(rows);
    }
    let now = act(ok(scheduler.act(&prepared_act(&prepared).act_id).await).act);
    assert_eq!(
        (now.state(), now.version),
        (State::Prepared, prepared_act(&prepared).version)
    );
    nothing_was_paid(&daemon).await;
}

/// The same id with other bytes is a conflict, and the first slot that differs is named.
#[tokio::test]
async fn a_handoff_is_its_exact_line() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    ok(scheduler.prepare(&payment.ho()).await);
    let line = payment.ho();
    let cases = [
        (line.replace("amt=5400.00", "amt=5400.01"), "amt"),
        (
            line.replace("item=inv:MD-2026-057", "item=inv:MD-2026-058"),
            "item",
        ),
        (format!("{line} due=20261009"), "due"),
        (format!("{line} x_team=blue"), "x_team"),
        (format!("{line} // please"), "tail"),
        (line.replace("cur=GBP kind=GROSS", "kind=GROSS cur=GBP"), "form"),
    ];
    for (other, part) in cases {
        let mut rows = Vec::new();
        for wire in WIRES {
            let refused = row(
                "HANDOFF_CONFLICT",
                wire,
                scheduler.over(wire).prepare(&other).await,
            );
            assert_eq!(
                (refused.field("field"), refused.field("slot")),
                ("ho", part),
                "{refused:?}"
            );
            rows.push(refused);
        }
        same(rows);
    }
    // In another conversation the same id is another handoff.
    let elsewhere = ok(scheduler.prepare_in("elsewhere", &line).await);
    assert!(!elsewhere.replayed);
    // An id that another line has cannot be a confirmation's.
    let prepared = ok(scheduler.prepare(&line).await);
    for wire in WIRES {
        let taken = scheduler.over(wire).confirm(&prepared, "scheduler-1").await;
        row("HANDOFF_CONFLICT", wire, taken);
    }
    nothing_was_paid(&daemon).await;
}

/// Every way an act can be closed or out of reach, asked to commit.
#[tokio::test]
async fn what_cannot_be_confirmed_says_why() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();

    let cancelled = Payment::number(1);
    let cancelled_rb = ok(scheduler.prepare(&cancelled.ho()).await);
    let an = ok(scheduler.cancel(&cancel_line(&cancelled, "scheduler-90")).await);

    let declined = Payment::number(2);
    let declined_rb = ok(scheduler.prepare(&declined.ho()).await);
    let mut no = yes(&declined_rb, "scheduler-91");
    no.confirmation = decline(&declined_rb.statement, "scheduler-91");
    let lapsed = ok(scheduler.commit(no).await);
    assert_eq!(
        (lapsed.reply.as_str(), act(lapsed.act).state()),
        ("", State::Lapsed)
    );

    let old = Payment::number(3);
    let old_rb = ok(scheduler.prepare(&old.ho()).await);
    let rb_id = old_rb.statement.split(' ').nth(2).expect("an id");
    let newer = Payment::number(4)
        .ho()
        .replace(" from=", &format!(" re={rb_id} from="));
    let newer_rb = ok(scheduler.prepare(&newer).await);
    assert_eq!(prepared_act(&newer_rb).state(), State::Prepared);
    let old_close = act(ok(scheduler.act(&prepared_act(&old_rb).act_id).await).act).close;
    assert!(old_close.contains("why=SUPERSEDED"), "{old_close}");

    for wire in WIRES {
        let caller = scheduler.over(wire);
        let refused = row(
            "CANCELLED",
            wire,
            caller.confirm(&cancelled_rb, "scheduler-92").await,
        );
        assert_eq!(refused.field("line"), an.reply);
        let refused = row("LAPSED", wire, caller.confirm(&declined_rb, "scheduler-93").await);
        assert_eq!(refused.field("line"), declined_rb.statement);
        let refused = row("SUPERSEDED", wire, caller.confirm(&old_rb, "scheduler-94").await);
        assert_eq!(refused.field("line"), old_close);
    }

    // Declined is not closed: the same handoff is stated anew, and the old token is no longer current.
    let again = ok(scheduler.prepare(&declined.ho()).await);
    assert!(!again.replayed && again.token != declined_rb.token);
    assert_eq!(prepared_act(&again).attempt, 2);
    for wire in WIRES {
        let refused = row(
            "DIGEST_STALE",
            wire,
            scheduler.over(wire).confirm(&declined_rb, "scheduler-95").await,
        );
        assert_eq!(refused.field("statement_sha256"), again.statement_sha256);
    }
    nothing_was_paid(&daemon).await;
}

/// A person must authorise the consent: until then the statement stays as it is, and the act shows where.
#[tokio::test]
async fn not_approved_is_not_yet() {
    let daemon = Daemon::start_with(Setup::quick().set("lab.manual", "true")).await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    let stated = prepared_act(&prepared);
    assert!(stated.authorise_at.starts_with("http://127.0.0.1:"), "{stated:?}");
    for wire in WIRES {
        let refused = row(
            "NOT_APPROVED",
            wire,
            scheduler.over(wire).confirm(&prepared, "scheduler-2").await,
        );
        assert!(refused.text.contains(&stated.authorise_at), "{refused:?}");
    }
    let path = stated
        .authorise_at
        .splitn(4, '/')
        .last()
        .expect("a path")
        .to_owned();
    daemon
        .bank()
        .post(&format!("/{path}"), &serde_json::json!({}))
        .await;
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    crate::support::is_done_as_asked(&payment, &committed, &daemon.bank().book().await);

    // Refused by the account holder, the act is closed as certainly not done.
    let other = Payment::number(7);
    let prepared = ok(scheduler.prepare(&other.ho()).await);
    let path = prepared_act(&prepared)
        .authorise_at
        .replace("/authorise", "/reject");
    let path = path.splitn(4, '/').last().expect("a path").to_owned();
    daemon
        .bank()
        .post(&format!("/{path}"), &serde_json::json!({}))
        .await;
    let committed = ok(scheduler.confirm(&prepared, "scheduler-8").await);
    assert!(
        committed.reply.starts_with("RW1 FL payer-"),
        "{}",
        committed.reply
    );
    assert_eq!(daemon.bank().book().await.payments().len(), 1);
}

/// Everything has a limit: requests, waiting cancels.
#[tokio::test]
async fn too_much_is_said_to_be_too_much() {
    let setup = Setup::quick()
        .set("server.request_bytes_max", "16384")
        .set("adapters.bank.timeout_s", "300");
    let daemon = Daemon::start_with(setup).await;
    let scheduler = daemon.scheduler();
    let huge = "x".repeat(40_000);
    for wire in WIRES {
        row("BUSY", wire, scheduler.over(wire).prepare(&huge).await);
    }

    // The bank is busy for longer than this story, so that whoever waits for the truth still waits at its end.
    let payment = Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 600.0).await;
    let act_id = prepared_act(&prepared).act_id;
    let cancels = async {
        scheduler.until_state(&act_id, &[State::Executing]).await;
        let callers = WIRES.map(|wire| scheduler.over(wire));
        let answers = (0..40).map(async |n| {
            let request = CancelRequest {
                cx: cancel_line(&payment, &format!("scheduler-{}", 100 + n)),
                wait_s: 1,
                ..CancelRequest::default()
            };
            loop {
                // So many at once get into each other's way; a program comes back when told to.
                match callers[n % 2].cancel_request(request.clone()).await {
                    Err(refused) if refused.reason == "BUSY" => {}
                    answer => return answer,
                }
            }
        });
        join_all(answers).await
    };
    let answers = tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("the bank is still busy: {answer:?}"),
        answers = cancels => answers,
    };
    let mut waiting = 0;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(answer) => {
                assert_eq!(answer.reply, "", "whether it was done is not known yet");
                waiting += 1;
            }
            Err(refused) => {
                row::<()>("LIMIT", WIRES[n % 2], Err(refused));
            }
        }
    }
    assert_eq!(waiting, 16, "so many may wait, the rest is refused");
    crate::support::thread_passes(&scheduler, "scheduler").await;
}
