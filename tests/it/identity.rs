//! Who may do what, and what the others learn: nothing.

use wilco_api::v1::{CommitRequest, GetActRequest, State};
use wilco_tests::caller::yes;
use wilco_tests::{Daemon, Payment, WIRES, Wire, cancel_line};

use crate::errors::row;
use crate::support::{act, nothing_was_paid, ok, prepared_act};

/// Without a key nothing is answered, and with somebody else's nothing is done in a sender's name.
#[tokio::test]
async fn who_you_are_comes_before_everything() {
    let daemon = Daemon::start().await;
    let payment = Payment::seed();
    for wire in WIRES {
        row(
            "UNAUTHENTICATED",
            wire,
            daemon.stranger(wire).prepare(&payment.ho()).await,
        );
        row(
            "UNAUTHENTICATED",
            wire,
            daemon.stranger(wire).prepare("garbage").await,
        );
        row("UNAUTHENTICATED", wire, daemon.stranger(wire).acts(&[]).await);
        row(
            "UNAUTHENTICATED",
            wire,
            daemon.stranger(wire).commit(CommitRequest::default()).await,
        );
        let near = Some(format!("{}x", daemon.key("scheduler")));
        let near = wilco_tests::Caller::new(daemon.url(), daemon.channel(), wire, near);
        row("UNAUTHENTICATED", wire, near.prepare(&payment.ho()).await);

        for other in ["release", "approver", "duty", "viewer"] {
            let other = daemon.caller(other, wire);
            let refused = row("NOT_YOURS", wire, other.prepare(&payment.ho()).await);
            assert_eq!(refused.field("slot"), "from");
            row(
                "NOT_YOURS",
                wire,
                other.cancel(&cancel_line(&payment, "scheduler-2")).await,
            );
        }
        let scheduler = daemon.caller("scheduler", wire);
        let id = "0".repeat(32);
        row("NOT_YOURS", wire, scheduler.settle(&id, true, "seen").await);
    }
    assert_eq!(ok(daemon.caller("duty", Wire::Grpc).acts(&[]).await).acts, []);
    nothing_was_paid(&daemon).await;
}

/// What is unknown, and what exists but is not for the caller, cannot be told apart.
#[tokio::test]
async fn not_yours_is_as_unknown_as_not_there() {
    let daemon = Daemon::start().await;
    let prepared = ok(daemon.scheduler().prepare(&Payment::seed().ho()).await);
    let real = prepared_act(&prepared).act_id;
    let flip = |text: &str| {
        let last = if text.ends_with('a') { 'b' } else { 'a' };
        format!("{}{last}", &text[..text.len() - 1])
    };
    let forged = flip(&prepared.token);
    for wire in WIRES {
        let release = daemon.caller("release", wire);
        let (theirs, none) = (release.act(&real).await, release.act(&flip(&real)).await);
        assert_eq!(row("UNKNOWN_ACT", wire, theirs), row("UNKNOWN_ACT", wire, none));
        let (theirs, none) = (release.thread("scheduler").await, release.thread("nowhere").await);
        assert_eq!(row("UNKNOWN_ACT", wire, theirs), row("UNKNOWN_ACT", wire, none));
        assert_eq!(ok(release.acts(&[]).await).acts, []);
        // With the real token in hand, even the right digest and line help nobody else. Nor do they learn the digest.
        for other in ["release", "approver", "duty", "viewer"] {
            let other = daemon.caller(other, wire);
            let mut bare = yes(&prepared, "scheduler-2");
            bare.statement_sha256.clear();
            let mut forgery = bare.clone();
            forgery.token.clone_from(&forged);
            let theirs = row("UNKNOWN_TOKEN", wire, other.commit(bare).await);
            let none = row("UNKNOWN_TOKEN", wire, other.commit(forgery).await);
            assert_eq!(theirs, none);
            row(
                "UNKNOWN_TOKEN",
                wire,
                other.confirm(&prepared, "scheduler-2").await,
            );
        }
        let scheduler = daemon.caller("scheduler", wire);
        let mut forgery = yes(&prepared, "scheduler-2");
        forgery.token.clone_from(&forged);
        row("UNKNOWN_TOKEN", wire, scheduler.commit(forgery).await);
        row("UNKNOWN_ACT", wire, scheduler.act(&flip(&real)).await);
    }
    let by_token = |token: &str| GetActRequest {
        token: token.to_owned(),
        ..GetActRequest::default()
    };
    let release = daemon.caller("release", Wire::Grpc);
    assert_eq!(
        row(
            "UNKNOWN_TOKEN",
            Wire::Grpc,
            release.get_act(by_token(&prepared.token)).await
        ),
        row(
            "UNKNOWN_TOKEN",
            Wire::Grpc,
            release.get_act(by_token(&forged)).await
        )
    );
    // Who may see everything sees it, and still cannot confirm it.
    for seer in ["duty", "viewer", "approver"] {
        for wire in WIRES {
            let seer = daemon.caller(seer, wire);
            assert_eq!(ok(seer.acts(&[]).await).acts.len(), 1);
            assert_eq!(act(ok(seer.act(&real).await).act).state(), State::Prepared);
            assert_eq!(ok(seer.thread("scheduler").await).lines.len(), 2);
        }
    }
    for other in ["viewer", "approver", "scheduler"] {
        for wire in WIRES {
            row(
                "NOT_YOURS",
                wire,
                daemon.caller(other, wire).settle(&real, true, "seen").await,
            );
        }
    }
    let refused = row(
        "REFUSED",
        Wire::Json,
        daemon
            .caller("duty", Wire::Json)
            .settle(&real, true, "seen")
            .await,
    );
    assert!(refused.text.contains("prepared"), "{refused:?}");
    nothing_was_paid(&daemon).await;
}
