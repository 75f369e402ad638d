//! What these are after: a commit is answered in one order only (closed, digest, stage, confirmation), a bare token
//! never pays, and a late yes is a no to the microsecond.

use super::*;
use crate::act::{Closed, StoredProblem};
use crate::contract::Identity;
use crate::journal::EntryKind;
use crate::prepare::closed;
use crate::testing::{CONFIRMATION, NOON, a_prepared_act, an_executing_act, an_offer, profiles};
use crate::{ActId, State, Verdict};

fn right() -> (String, &'static str) {
    (an_offer().statement_sha256, CONFIRMATION)
}

fn ask(act: &Act, attempt: u32, digest: &str, confirmation: &str) -> Result<Next, Refusal> {
    let quoted = Quoted {
        attempt,
        statement_sha256: digest,
        confirmation,
    };
    decide(&profiles(), act, quoted)
}

fn refusal(act: &Act, attempt: u32, digest: &str, confirmation: &str) -> Refusal {
    ask(act, attempt, digest, confirmation).expect_err("a refusal")
}

fn staged(stage: Stage) -> Act {
    Act {
        stage,
        ..a_prepared_act()
    }
}

fn a_close(line: &str) -> Closed {
    closed(line.into(), "payer-102".into(), NOON, Some(an_offer()))
}

fn the_confirmation() -> Confirmation {
    Confirmation {
        line: CONFIRMATION.into(),
        id: "scheduler-2".into(),
    }
}

fn claimant() -> Claimant {
    Claimant {
        owner: "me".into(),
        principal: "scheduler".into(),
        deadline_s: 30,
    }
}

#[test]
fn a_right_commit_claims() {
    let (digest, yes) = right();
    assert_eq!(
        ask(&a_prepared_act(), 1, &digest, yes),
        Ok(Next::Claim(the_confirmation()))
    );
    // The digest is hex: its case says nothing.
    assert!(ask(&a_prepared_act(), 1, &digest.to_uppercase(), yes).is_ok());
    // One line end after the confirmation is the transport's.
    assert_eq!(
        ask(&a_prepared_act(), 1, &digest, &format!("{yes}\r\n")),
        Ok(Next::Claim(the_confirmation()))
    );
}

#[test]
fn a_bare_token_never_pays_and_is_shown_what_to_check() {
    let (digest, yes) = right();
    let act = a_prepared_act();
    let statement = Some((an_offer().statement, digest.clone()));

    let bare = refusal(&act, 1, "", yes);
    assert_eq!(bare.reason, Reason::DigestRequired);
    assert_eq!(bare.field.as_deref(), Some("statement_sha256"));
    assert_eq!(bare.statement, statement);

    let foreign = refusal(&act, 1, &"0".repeat(64), yes);
    assert_eq!(foreign.reason, Reason::DigestStale);
    assert_eq!(foreign.statement, statement);

    // The digest of another line entirely, a cut one, and the RW1 digest are none of them the statement's.
    for wrong in [&digest[..63], "h", &crate::journal::sha256_hex(b"")] {
        assert_eq!(
            refusal(&act, 1, wrong, yes).reason,
            Reason::DigestStale,
            "{wrong}"
        );
    }

    let unconfirmed = refusal(&act, 1, &digest, "");
    assert_eq!(unconfirmed.reason, Reason::ConfirmationRequired);
    assert_eq!(unconfirmed.field.as_deref(), Some("confirmation"));
    assert!(
        unconfirmed
            .text
            .contains("AN re=payer-101 val=Y from=scheduler to=payer"),
        "{}",
        unconfirmed.text
    );
}

#[test]
fn an_earlier_attempts_token_is_stale_and_shows_the_current_statement() {
    let mut act = a_prepared_act();
    act.attempt = 2;
    let second = Offer {
        attempt: 2,
        rb_id: "payer-102".into(),
        statement: "RW1 RB payer-102".into(),
        statement_sha256: "ab".repeat(32),
        ..an_offer()
    };
    act.stage = Stage::Prepared(second.clone());
    let (old_digest, yes) = right();
    for digest in [old_digest.as_str(), &second.statement_sha256] {
        let stale = refusal(&act, 1, digest, yes);
        assert_eq!(stale.reason, Reason::DigestStale);
        assert_eq!(
            stale.statement,
            Some((second.statement.clone(), second.statement_sha256.clone()))
        );
    }
}

#[test]
fn a_closed_act_answers_as_it_was_closed_before_anything_else_is_asked() {
    let done = staged(Stage::Done(Closed {
        verdict: Some(Verdict::Match),
        ..a_close("RW1 DN payer-102 ...")
    }));
    let failed = staged(Stage::Failed(a_close("RW1 FL payer-102 ...")));
    for act in [done, failed] {
        assert_eq!(ask(&act, 1, "", ""), Ok(Next::Answer));
        assert_eq!(ask(&act, 9, "nonsense", "nonsense"), Ok(Next::Answer));
    }
    let cases = [
        (Stage::Cancelled(a_close("the AN")), Reason::Cancelled, "the AN"),
        (Stage::Refused(a_close("the UN")), Reason::Refused, "the UN"),
        (
            Stage::Refused(Closed {
                superseded: true,
                erased: None,
                ..a_close("the UN")
            }),
            Reason::Superseded,
            "the UN",
        ),
    ];
    for (stage, reason, line) in cases {
        let refused = refusal(&staged(stage), 1, "", "");
        assert_eq!((refused.reason, refused.line.as_deref()), (reason, Some(line)));
    }
}

#[test]
fn the_digest_comes_before_the_stage_and_the_stage_before_the_confirmation() {
    let held = Offer {
        problems: vec![StoredProblem {
            code: "exec_mismatch".into(),
            slot: Some("acct".into()),
            want: None,
            got: None,
            text: "acct differs".into(),
        }],
        ..an_offer()
    };
    let (digest, _) = right();
    let cases = [
        (Stage::Held(held.clone()), Reason::Held),
        (Stage::Lapsed(an_offer(), Lapse::Expired), Reason::Expired),
        (Stage::Lapsed(an_offer(), Lapse::Declined), Reason::Lapsed),
    ];
    for (stage, reason) in cases {
        let act = staged(stage);
        assert_eq!(refusal(&act, 1, "", "").reason, Reason::DigestRequired);
        assert_eq!(refusal(&act, 2, &digest, "").reason, Reason::DigestStale);
        let told = refusal(&act, 1, &digest, "");
        assert_eq!(told.reason, reason);
        assert_eq!(told.line, Some(an_offer().statement));
    }
    let told = refusal(&staged(Stage::Held(held.clone())), 1, &digest, "");
    assert_eq!(told.problems, held.problems);
    assert!(told.text.contains("acct differs"), "{}", told.text);
}

#[test]
fn a_commit_of_a_running_act_joins_it_but_not_without_the_digest() {
    let executing = an_executing_act();
    let Stage::Executing(e) = executing.stage.clone() else {
        panic!("executing")
    };
    for act in [
        executing,
        Act {
            stage: Stage::InDoubt(e),
            ..an_executing_act()
        },
    ] {
        let (digest, _) = right();
        assert_eq!(ask(&act, 1, &digest, ""), Ok(Next::Join));
        assert_eq!(refusal(&act, 1, "", "").reason, Reason::DigestRequired);
        assert_eq!(refusal(&act, 1, "00", "").reason, Reason::DigestStale);
    }
}

#[test]
fn a_confirmation_is_the_senders_own_yes_or_no_to_this_statement() {
    let (digest, _) = right();
    let act = a_prepared_act();
    let no = CONFIRMATION.replace("val=Y", "val=N");
    assert_eq!(
        ask(&act, 1, &digest, &no),
        Ok(Next::Decline(Confirmation {
            line: no.clone(),
            id: "scheduler-2".into()
        }))
    );
    let cases = [
        ("not a line", None),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer",
            Some("val"),
        ),
        (
            "RW1 CX scheduler-2 re=payer-101 from=scheduler to=payer item=inv:MD-2026-057",
            Some("type"),
        ),
        (
            "RW1 AN other-2 re=payer-101 from=other to=payer val=Y",
            Some("from"),
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=other val=Y",
            Some("to"),
        ),
        (
            "RW1 AN scheduler-2 re=scheduler-1 from=scheduler to=payer val=Y",
            Some("re"),
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer val=ok",
            Some("val"),
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer p=pay val=APPROVE",
            Some("val"),
        ),
        (
            "RW1 AN scheduler-2 re=payer-101  from=scheduler to=payer val=Y",
            None,
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer val=Y bogus=1",
            Some("bogus"),
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer val=Y\n\n",
            None,
        ),
        (
            "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer val=Y\nRW1",
            None,
        ),
    ];
    for (line, slot) in cases {
        let refused = refusal(&act, 1, &digest, line);
        assert_eq!(refused.reason, Reason::Malformed, "{line}");
        assert_eq!(refused.field.as_deref(), Some("confirmation"), "{line}");
        if slot.is_some() {
            assert_eq!(refused.slot.as_deref(), slot, "{line}: {}", refused.text);
        }
    }
}

#[test]
fn a_yes_to_other_values_than_those_stated_is_no_yes() {
    let (digest, _) = right();
    let act = a_prepared_act();
    let with = |slot: &str| CONFIRMATION.replace("p=pay", &format!("p=pay {slot}"));
    for (slot, key) in [
        ("amt=5100.00", "amt"),
        ("acct=40-12-88/61102983", "acct"),
        ("item=inv:OTHER", "item"),
        // What pays is stated too, and what was never stated cannot be confirmed.
        ("x_dbtr=99-99-99/99999999", "x_dbtr"),
        ("x_cop=no_match", "x_cop"),
        ("dec=HOLD", "dec"),
        ("net=1.00", "net"),
    ] {
        let refused = refusal(&act, 1, &digest, &with(slot));
        assert_eq!(refused.reason, Reason::Malformed);
        assert_eq!(refused.slot.as_deref(), Some(key));
    }
    for same in ["amt=5400.00", "item=inv:MD-2026-057", "x_note=anything"] {
        assert!(
            matches!(ask(&act, 1, &digest, &with(same)), Ok(Next::Claim(_))),
            "{same}"
        );
    }
}

// ---- the claiming write

#[test]
fn a_claim_is_in_time_until_the_last_microsecond_and_late_at_the_instant_itself() {
    let (act, offer) = (a_prepared_act(), an_offer());
    let before = Timestamp(offer.expires_at.0 - 1);
    let in_time = claim(&act, &offer, &the_confirmation(), &claimant(), before);
    assert_eq!(in_time.act.state(), State::Executing);
    let execution = in_time.act.execution().expect("claimed");
    assert_eq!(execution.claim.claimed_at, before);
    assert_eq!(execution.claim.epoch, 1);
    assert_eq!(execution.confirmation, CONFIRMATION);
    assert_eq!(execution.offer, offer, "frozen values do not change");
    assert!(execution.progress.maybe_sent);
    assert_eq!(in_time.expect, Expect::Version(1));
    assert_eq!(in_time.entries[0].kind, EntryKind::Line);
    assert_eq!(in_time.entries[0].message_id.as_deref(), Some("scheduler-2"));

    for late in [
        offer.expires_at,
        Timestamp(offer.expires_at.0 + 1),
        Timestamp::MAX,
    ] {
        let change = claim(&act, &offer, &the_confirmation(), &claimant(), late);
        assert_eq!(change.act.state(), State::Lapsed);
        assert_eq!(change.act.stage, Stage::Lapsed(offer.clone(), Lapse::Expired));
        // The refusal is written, but a late yes is no line of the thread and takes no id.
        assert_eq!(change.entries.len(), 1);
        assert_eq!(change.entries[0].kind, EntryKind::Event);
        assert_eq!(change.entries[0].message_id, None);
        assert!(change.entries[0].body.contains("confirmation_late"));
    }
}

#[test]
fn a_claim_never_outlives_the_handoff_the_cut_off_or_the_key() {
    let late = |act: &Act, offer: &Offer, now: Timestamp| {
        claim(act, offer, &the_confirmation(), &claimant(), now)
            .act
            .state()
            == State::Lapsed
    };
    let now = NOON.plus_seconds(100);

    let mut act = a_prepared_act();
    act.limit = now;
    assert!(late(&act, &an_offer(), now));
    act.limit = Timestamp(now.0 + 1);
    assert!(!late(&act, &an_offer(), now));

    let mut offer = an_offer();
    offer.frozen.not_after = now;
    assert!(late(&a_prepared_act(), &offer, now));
    offer.frozen.not_after = Timestamp(now.0 + 1);
    assert!(!late(&a_prepared_act(), &offer, now));
}

#[test]
fn no_byte_is_sent_after_the_earliest_of_cut_off_and_key_window() {
    let now = NOON.plus_seconds(100);
    let not_after = |identity: Identity, cut_off_s: i64| {
        let mut offer = an_offer();
        offer.frozen.contract.identity = identity;
        offer.frozen.not_after = now.plus_seconds(cut_off_s);
        let change = claim(&a_prepared_act(), &offer, &the_confirmation(), &claimant(), now);
        change.act.execution().map(|e| e.claim.not_after)
    };
    assert_eq!(not_after(Identity::Window(60), 3600), Some(now.plus_seconds(60)));
    assert_eq!(not_after(Identity::Window(60), 30), Some(now.plus_seconds(30)));
    assert_eq!(not_after(Identity::Enforced, 3600), Some(now.plus_seconds(3600)));
    assert_eq!(not_after(Identity::None, 3600), Some(now.plus_seconds(3600)));
}

#[test]
fn a_decline_lapses_the_statement_and_leaves_the_handoff_open() {
    let act = a_prepared_act();
    let no = Confirmation {
        line: CONFIRMATION.replace("val=Y", "val=N"),
        id: "scheduler-2".into(),
    };
    let change = decline(&act, &an_offer(), &no, "scheduler");
    assert_eq!(change.act.stage, Stage::Lapsed(an_offer(), Lapse::Declined));
    assert_eq!(change.expect, Expect::Version(1));
    assert_eq!(crate::testing::thread_lines(&change), [no.line]);
    assert_eq!(change.act.due_at(), Some(act.limit));
}

#[test]
fn the_claim_names_its_owner_and_is_looked_at_again_when_it_should_be_over() {
    let now = NOON.plus_seconds(7);
    let change = claim(
        &a_prepared_act(),
        &an_offer(),
        &the_confirmation(),
        &claimant(),
        now,
    );
    let execution = change.act.execution().expect("claimed");
    assert_eq!(execution.claim.owner, "me");
    assert_eq!(execution.claim.deadline, now.plus_seconds(30));
    assert_eq!(change.act.due_at(), Some(now.plus_seconds(30)));
    assert_eq!(execution.progress.over_since, None, "the call is not over yet");
    assert_eq!(change.act.act_id, ActId::new(NOON, [9; 10]));
}

#[test]
fn a_statement_is_confirmed_under_the_profile_it_was_made_under() {
    let stated_under = |digest: &str| {
        let mut offer = an_offer();
        offer.frozen.profile_digest = digest.to_owned();
        Act {
            stage: Stage::Prepared(offer),
            ..a_prepared_act()
        }
    };
    let (digest, confirmation) = right();
    let profiles = crate::testing::profiles();
    let current = profiles.get("pay").expect("pay").digest();
    assert!(matches!(
        ask(&stated_under(current), 1, &digest, confirmation),
        Ok(Next::Claim(_))
    ));
    let refused = refusal(&stated_under("another"), 1, &digest, confirmation);
    assert_eq!(refused.reason, Reason::Lapsed);
    assert!(
        refused.text.contains("profile pay has changed"),
        "{}",
        refused.text
    );
}
