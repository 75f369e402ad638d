//! What these are after: time runs out to the instant, and nobody is looked at as dead who is not known to be.

use super::*;
use crate::State;
use crate::settle::{News, Pace, settle};
use crate::testing::{
    HO, NOON, a_contract, a_prepared_act, an_executing_act, an_offer, profiles, thread_lines, thread_problems,
};

fn act_of(n: u8, act: Act) -> Act {
    Act {
        act_id: ActId::new(NOON, [n; 10]),
        ..act
    }
}

fn lapsed_act() -> Act {
    Act {
        stage: Stage::Lapsed(an_offer(), Lapse::Declined),
        ..a_prepared_act()
    }
}

fn held_act() -> Act {
    Act {
        stage: Stage::Held(an_offer()),
        ..a_prepared_act()
    }
}

fn call_over() -> Act {
    let pace = Pace {
        first_s: 1,
        longest_s: 1,
        escalate_after: 1,
    };
    let news = News::CallUnknown("?".into());
    settle(&profiles(), &an_executing_act(), &news, &a_contract(), pace, NOON)
        .expect("a line")
        .expect("claimed")
        .act
}

fn step_for(act: &Act, me: &str, others_are_dead: bool, now: Timestamp) -> Option<Step> {
    let in_flight = HashSet::new();
    let owners = Owners {
        me,
        in_flight: &in_flight,
        others_are_dead,
        since: Timestamp::MAX,
        doubled: false,
        silent: &|_| false,
    };
    plan(std::slice::from_ref(act), &owners, now).into_iter().next()
}

#[test]
fn a_statement_expires_at_its_instant_and_not_a_microsecond_before() {
    let (act, end) = (a_prepared_act(), an_offer().expires_at);
    assert_eq!(expires(&act, Timestamp(end.0 - 1)), None);
    assert_eq!(expires(&act, end), Some(Expiry::Statement));
    assert_eq!(act.due_at(), Some(end));
    // What is held or lapsed has no live statement: only the handoff's end counts.
    for act in [held_act(), lapsed_act()] {
        assert_eq!(expires(&act, end), None);
        assert_eq!(act.due_at(), Some(act.limit));
    }
}

#[test]
fn a_handoff_ends_at_its_limit_in_every_unclaimed_stage_and_in_no_other() {
    for act in [a_prepared_act(), held_act(), lapsed_act()] {
        assert_ne!(expires(&act, Timestamp(act.limit.0 - 1)), Some(Expiry::Handoff));
        assert_eq!(expires(&act, act.limit), Some(Expiry::Handoff));
    }
    for act in [an_executing_act(), call_over()] {
        assert_eq!(
            expires(&act, Timestamp::MAX),
            None,
            "claimed: its outcome closes it"
        );
    }
}

#[test]
fn an_expired_statement_lapses_and_the_handoff_stays_open() {
    let act = a_prepared_act();
    let change = expiry(&profiles(), &act, an_offer().expires_at)
        .expect("a line")
        .expect("due");
    assert_eq!(change.act.stage, Stage::Lapsed(an_offer(), Lapse::Expired));
    assert_eq!(change.entries, []);
    assert_eq!(change.expect, Expect::Version(1));
    assert_eq!(expiry(&profiles(), &act, NOON), Ok(None), "not due");
}

#[test]
fn an_expired_handoff_is_closed_with_fl_expired_and_nothing_is_claimed_to_have_run() {
    for act in [a_prepared_act(), held_act(), lapsed_act()] {
        let change = expiry(&profiles(), &act, act.limit)
            .expect("a line")
            .expect("due");
        assert_eq!(change.act.state(), State::Failed);
        let lines = thread_lines(&change);
        assert_eq!(
            lines,
            [
                "RW1 FL payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=EXPIRED retry=N p=pay \
                 // its time ran out before it was confirmed; nothing was done"
            ]
        );
        let closed = change.act.closed().expect("closed");
        assert_eq!(closed.claim, None);
        assert_eq!(closed.offer, Some(an_offer()), "what was placed must be released");
        let thread = [HO, &an_offer().statement, &lines[0]];
        assert_eq!(thread_problems(&thread, act.limit), [] as [String; 0]);
    }
}

#[test]
fn the_plan_names_a_step_for_every_act_that_is_due() {
    let late = NOON.plus_seconds(400);
    let running = act_of(3, an_executing_act());
    let due = [
        act_of(1, a_prepared_act()),
        act_of(2, call_over()),
        running.clone(),
        act_of(4, an_executing_act()),
        act_of(5, lapsed_act()),
    ];
    let in_flight = HashSet::from([running.act_id]);
    let owners = Owners {
        me: "me",
        in_flight: &in_flight,
        others_are_dead: false,
        since: Timestamp::MAX,
        doubled: false,
        silent: &|_| false,
    };
    assert_eq!(
        plan(&due, &owners, late),
        [
            Step::Expire(due[0].act_id),
            Step::LookUp(due[1].act_id),
            Step::Leave(due[2].act_id),
            Step::TakeOver(due[3].act_id, Fate::Over),
        ]
    );
}

#[test]
fn anothers_claim_is_taken_over_only_where_its_owner_is_known_to_be_dead() {
    let act = an_executing_act();
    let far_past_its_deadline = NOON.plus_seconds(1_000_000);
    assert_eq!(
        step_for(&act, "another", false, far_past_its_deadline),
        Some(Step::Watch(act.act_id)),
        "a passed deadline proves nothing"
    );
    assert_eq!(
        step_for(&act, "another", true, NOON),
        Some(Step::TakeOver(act.act_id, Fate::Over))
    );
    // Ours and not running here: the call has returned, this process only lost it.
    assert_eq!(
        step_for(&act, "me", false, NOON),
        Some(Step::TakeOver(act.act_id, Fate::Over))
    );
}

#[test]
fn what_is_final_is_left_alone() {
    for line in ["DN", "AN", "UN"] {
        let close = crate::prepare::closed(line.into(), "payer-102".into(), NOON, None);
        let act = Act {
            stage: Stage::Refused(close),
            ..a_prepared_act()
        };
        assert_eq!(step_for(&act, "me", true, Timestamp::MAX), None);
        assert_eq!(act.due_at(), None);
    }
}

// ---- taking over

fn claimed_by(owner: &str, act: Act) -> Act {
    let mut act = act;
    if let Stage::Executing(e) | Stage::InDoubt(e) = &mut act.stage {
        owner.clone_into(&mut e.claim.owner);
    }
    act
}

fn bearer(act: &Act) -> Bearer {
    Bearer::of(&act.execution().expect("claimed").claim)
}

fn progress(act: &Act) -> &crate::act::Progress {
    &act.execution().expect("claimed").progress
}

fn at(seconds: i64) -> Timestamp {
    NOON.plus_seconds(seconds)
}

fn taken(act: &Act, me: &str, fate: Fate, second: i64) -> Act {
    let change = take_over(act, &bearer(act), me, fate, at(second)).expect("taken over");
    assert_eq!(change.expect, Expect::Version(act.version));
    let mut next = change.act;
    next.version += 1;
    next
}

fn told(act: &Act, news: &News, second: i64) -> Act {
    let pace = Pace {
        first_s: 2,
        longest_s: 60,
        escalate_after: 3,
    };
    let mut next = settle(&profiles(), act, news, &a_contract(), pace, at(second))
        .expect("a line")
        .expect("claimed")
        .act;
    next.version += 1;
    next
}

fn absent(second: i64) -> News {
    News::LookupAbsent {
        asked_at: at(second),
        text: "no such reference".into(),
    }
}

#[test]
fn an_earlier_run_on_the_same_folder_is_dead_and_another_folder_proves_nothing() {
    for (owner, me, step) in [
        (
            "house.boot1",
            "house.boot2",
            Step::TakeOver(an_executing_act().act_id, Fate::Over),
        ),
        (
            "house.boot1",
            "other.boot2",
            Step::Watch(an_executing_act().act_id),
        ),
        // A name without a house belongs to no folder: two of them are not the same one.
        (".boot1", ".boot2", Step::Watch(an_executing_act().act_id)),
        ("boot1", "boot2", Step::Watch(an_executing_act().act_id)),
    ] {
        let act = claimed_by(owner, an_executing_act());
        assert_eq!(
            step_for(&act, me, false, at(1_000_000)),
            Some(step),
            "{owner} seen by {me}"
        );
    }
}

#[test]
fn a_silent_owner_is_taken_over_as_one_that_may_be_paused() {
    let act = claimed_by("there.1", an_executing_act());
    let in_flight = HashSet::new();
    let owners = Owners {
        me: "here.1",
        in_flight: &in_flight,
        others_are_dead: false,
        since: Timestamp::MAX,
        doubled: false,
        silent: &|_| true,
    };
    let steps = plan(std::slice::from_ref(&act), &owners, NOON);
    assert_eq!(steps, [Step::TakeOver(act.act_id, Fate::Silent)]);
}

/// A clone of the folder's volume has the folder's name and a lock of its own: what it claims after this run began, no
/// earlier run on this folder can have claimed.
#[test]
fn a_claim_made_under_this_folders_name_after_this_run_began_is_a_living_doubles() {
    let act = claimed_by("here.2", an_executing_act());
    let claimed_at = act.execution().expect("claimed").claim.claimed_at;
    let in_flight = HashSet::new();
    let before = Timestamp(claimed_at.0 - 1);
    let step_of = |act: &Act, me, others_are_dead, since, doubled, silent: bool| {
        let owners = Owners {
            me,
            in_flight: &in_flight,
            others_are_dead,
            since,
            doubled,
            silent: &|_| silent,
        };
        plan(std::slice::from_ref(act), &owners, at(1_000_000))
            .into_iter()
            .next()
    };
    let id = act.act_id;
    let over = Some(Step::TakeOver(id, Fate::Over));
    let silent = Some(Step::TakeOver(id, Fate::Silent));
    let watch = Some(Step::Watch(id));

    assert!(!proves_double(&act, "here.1", claimed_at));
    assert_eq!(
        step_of(&act, "here.1", false, claimed_at, false, false),
        over,
        "an earlier run"
    );
    assert!(proves_double(&act, "here.1", before));
    assert_eq!(
        step_of(&act, "here.1", false, before, false, false),
        watch,
        "it lives"
    );
    assert_eq!(
        step_of(&act, "here.1", false, before, false, true),
        silent,
        "as anybody else's"
    );
    assert_eq!(
        step_of(&act, "here.1", false, claimed_at, true, false),
        watch,
        "once known, always"
    );

    // Its own claims, and another folder's, prove nothing; and a store that nobody else can have has no double.
    assert!(!proves_double(&act, "here.2", before) && !proves_double(&act, "there.1", before));
    assert!(!proves_double(&a_prepared_act(), "here.1", before));
    assert_eq!(
        step_of(&act, "here.2", false, before, true, false),
        over,
        "its own"
    );
    assert_eq!(step_of(&act, "here.1", true, before, false, false), over, "alone");

    // A third daemon's claim with a call of the double's open: a takeover would vouch for its end.
    let third = taken(&act, "third.1", Fate::Silent, 50);
    assert_eq!(progress(&third).open_calls.len(), 1);
    assert_eq!(step_of(&third, "here.1", false, claimed_at, false, true), silent);
    assert_eq!(step_of(&third, "here.1", false, claimed_at, true, true), watch);
}

#[test]
fn a_takeover_makes_a_new_epoch_and_says_what_is_known_of_the_call() {
    let act = claimed_by("there.1", an_executing_act());
    let over = taken(&act, "here.1", Fate::Over, 50);
    let claim = &over.execution().expect("claimed").claim;
    assert_eq!((claim.owner.as_str(), claim.epoch), ("here.1", 2));
    assert_eq!(
        over.state(),
        State::InDoubt,
        "nobody is executing it as far as is known"
    );
    assert_eq!(progress(&over).over_since, Some(at(50)));
    assert!(!progress(&over).others_open);
    assert_eq!(progress(&over).next_at, at(50), "looked up at once");

    let silent = taken(&act, "here.1", Fate::Silent, 50);
    assert_eq!(progress(&silent).over_since, None, "it may still send");
    assert!(progress(&silent).others_open);
    assert!(progress(&silent).reason.contains("there.1"));
    // The last moment for the act is the confirmation's, whoever holds the claim.
    let claim = &silent.execution().expect("claimed").claim;
    assert_eq!(claim.not_after, act.execution().expect("claimed").claim.not_after);
    assert_eq!(
        claim.claimed_at,
        act.execution().expect("claimed").claim.claimed_at
    );

    let change = take_over(&act, &bearer(&act), "here.1", Fate::Silent, at(50)).expect("taken over");
    assert!(
        change.entries[0].body.contains("\"fate\":\"silent\""),
        "{}",
        change.entries[0].body
    );
    assert!(change.entries[0].body.contains("\"from\":\"there.1\""));
}

#[test]
fn a_claim_that_moved_on_is_not_taken_over() {
    let act = claimed_by("there.1", an_executing_act());
    let stale = bearer(&act);
    let moved = taken(&act, "third.1", Fate::Silent, 50);
    assert_eq!(take_over(&moved, &stale, "here.1", Fate::Over, at(60)), None);
    assert_eq!(
        take_over(&a_prepared_act(), &stale, "here.1", Fate::Over, NOON),
        None
    );
}

#[test]
fn what_is_known_to_be_over_stays_over_and_what_is_open_stays_open() {
    // Its call had returned before the owner went silent: nothing of it can be under way.
    let returned = claimed_by("there.1", call_over());
    let silent = taken(&returned, "here.1", Fate::Silent, 100);
    assert!(progress(&silent).over_since.is_some() && !progress(&silent).others_open);
    // Taken from a silent owner, then from a dead one: the silent one's call is as open as before.
    let open = taken(
        &claimed_by("there.1", an_executing_act()),
        "third.1",
        Fate::Silent,
        50,
    );
    let again = taken(&open, "here.1", Fate::Over, 60);
    assert!(progress(&again).others_open);
    assert_eq!(progress(&again).over_since, None);
    // And its own call's return says nothing about the silent owner's.
    let told = told(&again, &News::CallUnknown("the line went dead".into()), 70);
    assert_eq!(progress(&told).over_since, None);
}

#[test]
fn what_the_counterparty_accepted_stays_executing_under_its_new_holder() {
    let accepted = told(&an_executing_act(), &News::Accepted(Default::default()), 20);
    assert_eq!(accepted.state(), State::Executing);
    assert_eq!(
        taken(&accepted, "here.1", Fate::Over, 30).state(),
        State::Executing
    );
}

#[test]
fn behind_a_silent_owner_no_number_of_lookups_says_absent() {
    let mut act = taken(
        &claimed_by("there.1", an_executing_act()),
        "here.1",
        Fate::Silent,
        50,
    );
    for second in [60, 200, 1_000, 100_000] {
        act = told(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt);
    }
    assert!(progress(&act).escalated, "a person is called");
    // A counterparty that refuses late bytes ends the silent call itself.
    let mut contract = a_contract();
    contract.late_send = crate::contract::LateSend::RefusedAfter(300);
    let pace = Pace {
        first_s: 2,
        longest_s: 60,
        escalate_after: 3,
    };
    let mut act = taken(
        &claimed_by("there.1", an_executing_act()),
        "here.1",
        Fate::Silent,
        50,
    );
    for second in [320, 400] {
        act = settle(&profiles(), &act, &absent(second), &contract, pace, at(second))
            .expect("a line")
            .expect("claimed")
            .act;
    }
    assert_eq!(act.state(), State::Failed);
}

#[test]
fn a_restart_on_the_silent_owners_folder_vouches_for_the_end_of_its_call() {
    let open = taken(
        &claimed_by("there.1", an_executing_act()),
        "here.1",
        Fate::Silent,
        50,
    );
    for stranger in ["third.1", "here.1", "there", ".1"] {
        assert_eq!(
            vouch(&open, stranger, at(90)),
            None,
            "{stranger} knows nothing of it"
        );
    }
    let change = vouch(&open, "there.2", at(90)).expect("it holds the folder's lock");
    assert_eq!(change.expect, Expect::Version(open.version));
    let after = progress(&change.act);
    assert!(!after.others_open && after.open_calls.is_empty());
    assert_eq!(after.over_since, Some(at(90)));
    assert_eq!(
        change.act.execution().map(|e| &e.claim),
        open.execution().map(|e| &e.claim),
        "whose claim it is does not change"
    );
    assert!(change.entries[0].body.contains("there.1"));
    assert_eq!(vouch(&change.act, "there.2", at(91)), None, "said once");
    // From here on lookups can prove it.
    let mut act = change.act;
    for second in [91, 151] {
        act = told(&act, &absent(second), second);
    }
    assert_eq!(act.state(), State::Failed);
}

#[test]
fn nothing_is_over_while_another_silent_owner_or_the_holder_may_be_calling() {
    let first = taken(
        &claimed_by("there.1", an_executing_act()),
        "here.1",
        Fate::Silent,
        50,
    );
    // The holder sends the same bytes again, goes silent too, and a third daemon takes over.
    let calling = |act: &Act| {
        let change = reclaim(act, &enforced(), &bearer(act), 30, at(60)).expect("claimed again");
        Act {
            version: act.version + 1,
            ..change.act
        }
    };
    let both = taken(&calling(&first), "third.1", Fate::Silent, 100);
    assert_eq!(progress(&both).open_calls.len(), 2);
    let one = vouch(&both, "there.2", at(110)).expect("one of them").act;
    assert!(progress(&one).others_open && progress(&one).over_since.is_none());
    let none = vouch(&one, "here.2", at(120)).expect("the other").act;
    assert!(!progress(&none).others_open);
    assert_eq!(progress(&none).over_since, Some(at(120)));
    // While the holder is calling itself, the end of the other's call ends nothing yet; its own return does.
    let busy = vouch(&calling(&first), "there.2", at(110)).expect("said").act;
    assert!(!progress(&busy).others_open);
    assert_eq!(progress(&busy).over_since, None);
    let returned = told(&busy, &News::CallUnknown("the line went dead".into()), 130);
    assert_eq!(progress(&returned).over_since, Some(at(130)));
    // Taking over ends what earlier runs on one's own folder left open, and no more.
    let back = taken(&both, "there.2", Fate::Silent, 110);
    let owners: Vec<&str> = progress(&back)
        .open_calls
        .iter()
        .map(|c| c.owner.as_str())
        .collect();
    assert_eq!(owners, ["here.1", "third.1"]);
}

#[test]
fn taking_over_from_a_silent_resender_does_not_end_its_call_with_ones_own() {
    // Another daemon took the act from here's earlier run, began to send the same bytes again, and went silent.
    let lost = taken(
        &claimed_by("here.1", an_executing_act()),
        "there.1",
        Fate::Silent,
        50,
    );
    let change = reclaim(&lost, &enforced(), &bearer(&lost), 30, at(60)).expect("claimed again");
    let back = taken(
        &Act {
            version: lost.version + 1,
            ..change.act
        },
        "here.2",
        Fate::Silent,
        100,
    );
    let after = progress(&back);
    let owners: Vec<&str> = after.open_calls.iter().map(|c| c.owner.as_str()).collect();
    assert_eq!(owners, ["there.1"], "its bytes can still leave");
    assert!(after.others_open);
    assert_eq!(after.over_since, None);
    // One that only looked it up makes no call.
    let idle = taken(&lost, "here.2", Fate::Silent, 100);
    assert_eq!(progress(&idle).over_since, Some(at(100)));
    assert!(!progress(&idle).others_open && progress(&idle).open_calls.is_empty());
}

// ---- the same bytes again

/// Taken from a silent owner, and not found by a lookup.
fn orphaned() -> Act {
    let act = taken(
        &claimed_by("there.1", an_executing_act()),
        "here.1",
        Fate::Silent,
        50,
    );
    told(&act, &absent(60), 60)
}

/// A counterparty that never does the same bytes twice.
fn enforced() -> Contract {
    Contract {
        identity: Identity::Enforced,
        ..a_contract()
    }
}

fn may(act: &Act, identity: Identity, second: i64) -> bool {
    let contract = Contract {
        identity,
        ..a_contract()
    };
    may_resend(act, &contract, at(second))
}

#[test]
fn the_same_bytes_go_again_only_where_the_counterparty_enforces_their_identity() {
    let act = orphaned();
    assert!(may(&act, Identity::Enforced, 60));
    assert!(!may(&act, Identity::None, 60));
    assert!(
        !may(&act, Identity::Window(100), 60),
        "a paused call outlives the key"
    );
}

#[test]
fn a_key_that_is_forgotten_protects_where_late_bytes_are_refused_before_that() {
    let may = |key_s: u32, refused_s: u32, second: i64| {
        let contract = Contract {
            identity: Identity::Window(key_s),
            late_send: LateSend::RefusedAfter(refused_s),
            ..a_contract()
        };
        may_resend(&orphaned(), &contract, at(second))
    };
    // The window counts from the claim (second 10), and ends to the instant.
    assert!(may(100, 100, 109));
    assert!(!may(100, 100, 110));
    assert!(
        !may(100, 101, 60),
        "late bytes are still taken when the key is forgotten"
    );
}

#[test]
fn the_same_bytes_never_go_at_or_after_the_last_moment_of_the_act() {
    let act = orphaned();
    let last = act.execution().expect("claimed").claim.not_after;
    let before = Timestamp(last.0 - 1);
    assert!(may_resend(&act, &enforced(), before));
    assert!(!may_resend(&act, &enforced(), last));
}

#[test]
fn the_same_bytes_go_only_where_looking_alone_can_never_settle_it() {
    let change = |touch: fn(&mut crate::act::Progress)| {
        let mut act = orphaned();
        if let Stage::InDoubt(e) = &mut act.stage {
            touch(&mut e.progress);
        }
        may(&act, Identity::Enforced, 60)
    };
    assert!(change(|_| {}));
    assert!(!change(|p| p.others_open = false), "its call is over: look");
    assert!(!change(|p| p.over_since = Some(NOON)), "its call is over: look");
    assert!(!change(|p| p.accepted = true), "they have it");
    assert!(
        !change(|p| p.heard = Some(Default::default())),
        "it is known to be done"
    );
    assert!(
        change(|p| p.resends = MOST_RESENDS - 1) && !change(|p| p.resends = MOST_RESENDS),
        "a person is called"
    );
    assert!(!may(&call_over(), Identity::Enforced, 60));
    assert!(!may(&a_prepared_act(), Identity::Enforced, 60));
}

#[test]
fn a_resend_is_claimed_under_a_new_epoch_and_the_old_last_moment() {
    let act = orphaned();
    let change = reclaim(&act, &enforced(), &bearer(&act), 30, at(61)).expect("claimed again");
    assert_eq!(change.expect, Expect::Version(act.version));
    assert_eq!(
        change.act.state(),
        State::Executing,
        "so that a permit can be made"
    );
    let (before, after) = (
        act.execution().expect("claimed"),
        change.act.execution().expect("claimed"),
    );
    assert_eq!(after.claim.epoch, before.claim.epoch + 1);
    assert_eq!(after.claim.deadline, at(91));
    assert_eq!(after.claim.not_after, before.claim.not_after);
    assert_eq!(after.claim.claimed_at, before.claim.claimed_at);
    assert_eq!(
        after.offer, before.offer,
        "the frozen bytes are those of the statement"
    );
    assert_eq!(after.progress.resends, 1);
    assert!(after.progress.others_open, "the silent call is as open as before");
    assert!(change.entries[0].body.contains("sent_again"));
}

#[test]
fn a_resend_is_not_claimed_by_who_lost_the_claim_nor_where_it_may_not_go() {
    let act = orphaned();
    let stale = Bearer {
        epoch: 1,
        ..bearer(&act)
    };
    assert_eq!(reclaim(&act, &enforced(), &stale, 30, at(61)), None);
    let none = Contract {
        identity: Identity::None,
        ..a_contract()
    };
    assert_eq!(reclaim(&act, &none, &bearer(&act), 30, at(61)), None);
    assert_eq!(
        reclaim(&act, &enforced(), &bearer(&act), 30, at(3_600)),
        None,
        "decided at the store's instant: it may be too late by then"
    );
}
