//! `wilco` against a running daemon: tables for people, JSON for programs, and exit codes a script can go by.

use std::process::Command;

use serde_json::Value;
use wilco_api::v1::State;
use wilco_tests::lab::PAYMENTS;
use wilco_tests::process::{Ended, run};
use wilco_tests::{Daemon, Payment, Setup, binaries, cancel_line, confirmation, decline};

use crate::support::{nothing_was_paid, ok, prepared_act};

/// `wilco` with the daemon's folder.
async fn wilco(daemon: &Daemon, args: &[&str]) -> Ended {
    let mut command = Command::new(binaries::wilco());
    command.args(args).arg("--data").arg(daemon.data());
    for name in ["WILCO_KEY", "WILCO_URL", "WILCO_DATA"] {
        command.env_remove(name);
    }
    run(command).await
}

#[track_caller]
fn code(ended: &Ended, code: i32) -> &str {
    assert_eq!(ended.code, Some(code), "{}\n{}", ended.out, ended.err);
    &ended.out
}

#[track_caller]
fn json(ended: &Ended, expected: i32) -> Value {
    let out = code(ended, expected);
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// A person hands off, checks, confirms and looks, with nothing but the command line.
#[tokio::test]
async fn a_payment_by_hand() {
    let daemon = Daemon::start().await;
    let payment = Payment::seed();
    let (ho, record) = (payment.ho(), payment.record().to_string());

    let prepared = json(
        &wilco(&daemon, &["prepare", "--ho", &ho, "--record", &record, "--json"]).await,
        0,
    );
    assert_eq!(prepared["act"]["state"], "prepared");
    let text = |name: &str| prepared[name].as_str().unwrap_or_default().to_owned();
    let shown = wilco(&daemon, &["prepare", "--ho", &ho]).await;
    for part in [
        &text("reply"),
        "prepared",
        "scheduler: confirm or cancel",
        &text("statement_sha256"),
    ] {
        assert!(code(&shown, 0).contains(part), "{part}: {}", shown.out);
    }

    // How an operator sees what is pending.
    let pending = wilco(&daemon, &["acts"]).await;
    for part in [
        "STATE",
        "LEFT",
        "AMOUNT",
        "PAYEE",
        "WAITS FOR",
        "prepared",
        "5400.00 GBP",
        "marlow 40-12-88/61102938",
        "scheduler-1",
    ] {
        assert!(code(&pending, 0).contains(part), "{part}: {}", pending.out);
    }
    let listed = json(&wilco(&daemon, &["acts", "--json"]).await, 0);
    assert_eq!(listed["acts"][0]["act_id"], prepared["act"]["act_id"]);

    let (token, statement) = (text("token"), text("statement"));
    let commit = [
        "commit",
        &token,
        "--statement",
        &text("reply"),
        "--yes",
        "scheduler-2",
        "--ho",
        &ho,
    ];
    let committed = wilco(&daemon, &commit).await;
    let payments = daemon.bank().book().await.payments();
    assert_eq!(payments.len(), 1, "{}", committed.err);
    for part in ["RW1 DN payer-102 re=scheduler-1", "done", "match"] {
        assert!(code(&committed, 0).contains(part), "{part}: {}", committed.out);
    }
    let an = confirmation(&statement, "scheduler-2");
    let again = [
        "commit",
        &token,
        "--sha256",
        &text("statement_sha256"),
        "--confirmation",
        &an,
        "--json",
    ];
    let again = json(&wilco(&daemon, &again).await, 0);
    assert_eq!(
        (&again["replayed"], &again["act"]["verdict"]),
        (&Value::from(true), &Value::from("match"))
    );

    let act_id = prepared["act"]["act_id"].as_str().expect("an id");
    for args in [
        vec!["show", act_id, "--journal"],
        vec!["show", "--handoff", "scheduler-1", "--journal"],
    ] {
        let shown = wilco(&daemon, &args).await;
        for part in [
            "done",
            "match",
            "claimed",
            &ho,
            &statement,
            payments[0]["payment_id"].as_str().expect("an id"),
        ] {
            assert!(code(&shown, 0).contains(part), "{part}: {}", shown.out);
        }
    }
    let shown = json(&wilco(&daemon, &["show", act_id, "--json"]).await, 0);
    assert_eq!(shown["act"]["close"], again["reply"]);

    let thread = wilco(&daemon, &["thread", "scheduler"]).await;
    let lines: Vec<&str> = code(&thread, 0).lines().collect();
    assert_eq!((lines[0], lines[1]), (ho.as_str(), statement.as_str()));
    assert!(lines[3].starts_with("RW1 DN payer-102"), "{lines:#?}");
    let thread = json(&wilco(&daemon, &["thread", "scheduler", "--json"]).await, 0);
    assert_eq!(
        (thread["lines"].as_array().map(Vec::len), &thread["problems"]),
        (Some(4), &serde_json::json!([]))
    );
    // Nothing is pending any more; asked for everything, it is there.
    assert!(!code(&wilco(&daemon, &["acts"]).await, 0).contains("scheduler-1"));
    assert!(code(&wilco(&daemon, &["acts", "--all"]).await, 0).contains("scheduler-1"));
}

/// What did not go as wished is 1, says why, and says it to programs as the JSON API does.
#[tokio::test]
async fn exit_codes_tell_how_it_went() {
    let daemon = Daemon::start().await;
    let payment = Payment::seed();
    let prepared = json(
        &wilco(&daemon, &["prepare", "--ho", &payment.ho(), "--json"]).await,
        0,
    );
    let token = prepared["token"].as_str().expect("a token");
    let (statement, sha) = (
        prepared["statement"].as_str().expect("a statement"),
        prepared["statement_sha256"].as_str().expect("a digest"),
    );

    // Usage.
    for args in [
        vec!["prepare"],
        vec!["commit"],
        vec!["cancel"],
        vec!["settle"],
        vec!["show"],
        vec!["acts", "--sideways"],
    ] {
        assert_eq!(wilco(&daemon, &args).await.code, Some(2), "{args:?}");
    }
    // Refusals.
    let refused = wilco(&daemon, &["prepare", "--ho", "not a line", "--json"]).await;
    let said = json(&refused, 1);
    assert_eq!(
        (&said["reason"], &said["field"]),
        (&Value::from("MALFORMED"), &Value::from("ho"))
    );
    let wrong = payment.ho().replace("amt=5400.00", "amt=5400.01");
    let said = json(&wilco(&daemon, &["prepare", "--ho", &wrong, "--json"]).await, 1);
    assert_eq!(
        (&said["reason"], &said["slot"]),
        (&Value::from("HANDOFF_CONFLICT"), &Value::from("amt"))
    );
    let an = confirmation(statement, "scheduler-2");
    let stale = [
        "commit",
        token,
        "--sha256",
        &"0".repeat(64),
        "--confirmation",
        &an,
        "--json",
    ];
    let said = json(&wilco(&daemon, &stale).await, 1);
    assert_eq!(
        (&said["reason"], &said["statement"]),
        (&Value::from("DIGEST_STALE"), &Value::from(statement))
    );
    let unseen = ["show", &"0".repeat(32)];
    let said = wilco(&daemon, &unseen).await;
    code(&said, 1);
    assert!(said.err.contains("no such act"), "{}", said.err);
    // As somebody who may not.
    let as_duty = [
        "commit",
        token,
        "--sha256",
        sha,
        "--confirmation",
        &an,
        "--as",
        "duty",
        "--json",
    ];
    assert_eq!(
        json(&wilco(&daemon, &as_duty).await, 1)["reason"],
        "UNKNOWN_TOKEN"
    );

    // --yes is only given to a statement that passes the sender's own check.
    let other = payment.ho().replace("61102938", "61102983");
    let unchecked = [
        "commit",
        token,
        "--statement",
        statement,
        "--yes",
        "scheduler-2",
        "--ho",
        &other,
    ];
    let said = wilco(&daemon, &unchecked).await;
    code(&said, 1);
    assert!(said.err.contains("acct"), "{}", said.err);
    nothing_was_paid(&daemon).await;

    // Declined as asked is 0; held is 1; cancelled is 0.
    let no = decline(statement, "scheduler-3");
    code(
        &wilco(
            &daemon,
            &["commit", token, "--sha256", sha, "--confirmation", &no],
        )
        .await,
        0,
    );
    daemon
        .bank()
        .fault(wilco_tests::lab::CONSENTS, "wrong-account", 1, 0.0)
        .await;
    let held = wilco(&daemon, &["prepare", "--ho", &Payment::number(7).ho()]).await;
    assert!(code(&held, 1).contains("acct mismatch"), "{}", held.out);
    let cancelled = wilco(
        &daemon,
        &["cancel", "--cx", &cancel_line(&payment, "scheduler-4")],
    )
    .await;
    assert!(code(&cancelled, 0).contains("RW1 AN payer-"), "{}", cancelled.out);

    // What lost to the act is 1: it was done.
    let late = Payment::number(8);
    ok(daemon.scheduler().pay(&late).await);
    let too_late = wilco(&daemon, &["cancel", "--cx", &cancel_line(&late, "scheduler-9")]).await;
    assert!(code(&too_late, 1).contains("RW1 DN payer-"), "{}", too_late.out);

    // Nobody there.
    let mut gone = daemon;
    gone.kill();
    let said = wilco(&gone, &["acts"]).await;
    code(&said, 1);
    assert!(said.err.contains("running"), "{}", said.err);
}

/// An act in doubt that nobody can look up is settled by an operator's word, once it cannot land any more.
#[tokio::test]
async fn an_operator_settles_what_cannot_be_looked_up() {
    let setup = Setup::quick()
        .set("adapters.bank.settle_window_s", "1")
        .set("recovery.lookups_before_escalation", "1")
        .lab_apart();
    let mut daemon = Daemon::start_with(setup).await;
    let scheduler = daemon.scheduler();
    let mut doubted = Vec::new();
    for number in [1, 2] {
        let prepared = ok(scheduler.prepare(&Payment::number(number).ho()).await);
        doubted.push((prepared_act(&prepared).act_id, prepared, number));
    }
    daemon.bank().fault(PAYMENTS, "slow", 2, 600.0).await;
    for (_, prepared, number) in &doubted {
        let mut request = wilco_tests::caller::yes(prepared, &format!("scheduler-{}", 50 + number));
        request.wait_s = 1;
        assert_eq!(ok(scheduler.commit(request).await).reply, "");
        daemon.bank().paid(&format!("MD-2026-{number}")).await;
    }
    // The bank goes down with both answers in its hands, and stays down.
    daemon.lab().kill();
    for (act_id, ..) in &doubted {
        scheduler.until_state(act_id, &[State::InDoubt]).await;
    }
    let (first, second) = (doubted[0].0.as_str(), doubted[1].0.as_str());
    let evidence = ["--evidence", "the bank's statement of today shows it; J. Doe"];
    let settle = async |act: &str, word: &str| {
        let mut args = vec!["settle", act, word, "--json"];
        args.extend(evidence);
        // Refused while the call can still land.
        wilco_tests::until("the act to be quiet", async || {
            let ended = wilco(&daemon, &args).await;
            (ended.code == Some(0)).then(|| json(&ended, 0))
        })
        .await
    };
    let done = settle(first, "--done").await;
    assert_eq!(done["act"]["state"], "done");
    assert!(
        done["reply"]
            .as_str()
            .is_some_and(|dn| dn.starts_with("RW1 DN payer-102")),
        "{done}"
    );
    let failed = settle(second, "--not-done").await;
    assert_eq!(failed["act"]["state"], "failed");
    assert!(
        failed["reply"]
            .as_str()
            .is_some_and(|fl| fl.starts_with("RW1 FL payer-2")),
        "{failed}"
    );

    // Settled twice, without evidence, or by somebody else: no.
    let again = wilco(
        &daemon,
        &["settle", first, "--not-done", "--evidence", "x", "--json"],
    )
    .await;
    assert_eq!(json(&again, 1)["reason"], "REFUSED");
    let blank = wilco(&daemon, &["settle", first, "--done", "--evidence", " ", "--json"]).await;
    assert_eq!(json(&blank, 1)["reason"], "MALFORMED");
    let viewer = wilco(
        &daemon,
        &[
            "settle",
            first,
            "--done",
            "--evidence",
            "x",
            "--as",
            "viewer",
            "--json",
        ],
    )
    .await;
    assert_eq!(json(&viewer, 1)["reason"], "NOT_YOURS");
    // Who said so, and what they saw, stays with the act.
    let shown = wilco(&daemon, &["show", first, "--journal"]).await;
    for part in ["duty", "settled_by_operator", "J. Doe"] {
        assert!(code(&shown, 0).contains(part), "{part}: {}", shown.out);
    }
    crate::support::thread_passes(&scheduler, "scheduler").await;
}

/// What ended well needs nobody; what ran otherwise than stated stands in the list of who must act.
#[tokio::test]
async fn what_somebody_must_look_into_is_listed_with_what_is_pending() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    ok(scheduler.pay(&Payment::number(1)).await);
    let all_well = wilco(&daemon, &["acts"]).await;
    assert!(
        code(&all_well, 0).contains("nothing is pending"),
        "{}",
        all_well.out
    );

    daemon.bank().fault(PAYMENTS, "wrong-amount", 1, 0.0).await;
    let committed = ok(scheduler.pay(&Payment::number(2)).await);
    let act = crate::support::committed_act(&committed);
    let listed = wilco(&daemon, &["acts"]).await;
    for part in ["operator: look into the mismatch", &act.act_id] {
        assert!(code(&listed, 0).contains(part), "{part}: {}", listed.out);
    }
    let acts = json(&wilco(&daemon, &["acts", "--json"]).await, 0);
    assert_eq!(acts["acts"].as_array().map(Vec::len), Some(1));
}
