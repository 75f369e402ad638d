//! Several daemons on one store: whoever holds a claim settles it, nobody is called dead who may only be paused, and a
//! paused daemon that wakes can neither double an act nor take back what was said.
//!
//! Time is virtual: the allowance is watched on the process's own monotonic clock, and the store's is moved by hand.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_core::act::Progress;
use wilco_core::contract::{Identity, LookupBy};
use wilco_core::{Act, ActId, Reason, State, Verdict};
use wilco_engine::{CommitRequest, Prepared, SettleRequest};

use crate::common::*;

const ALLOWANCE: Duration = Duration::from_secs(30);

fn brief(request: CommitRequest) -> CommitRequest {
    CommitRequest {
        wait: Some(Duration::ZERO),
        ..request
    }
}

/// A counterparty without keys: two sendings would be two orders.
fn without_keys(lookup: LookupBy) -> Plan {
    let plan = Plan::new();
    let mut contract = locked(&plan.banks[0].contract);
    contract.identity = Identity::None;
    contract.lookup = lookup;
    drop(contract);
    plan
}

/// A counterparty that never does the same bytes twice, however late they come.
fn keyed() -> Plan {
    let plan = Plan::new();
    locked(&plan.banks[0].contract).identity = Identity::Enforced;
    plan
}

/// Two daemons; the first has claimed an act, and is stopped right before its first byte.
async fn paused(plan: Plan) -> (House, House, Prepared) {
    let (there, here) = two_houses(plan).await;
    there.bank().shut();
    let prepared = there.prepare(&ho(1)).await;
    there.commit(brief(yes(&prepared, 2))).await;
    let called = eventually(async || (locked(&there.bank().executes).len() == 1).then_some(())).await;
    assert!(called.is_some(), "the call is under way");
    (there, here, prepared)
}

/// The same, after the second daemon has taken the claim over.
async fn taken_over(plan: Plan) -> (House, House, Prepared) {
    let (there, here, prepared) = paused(plan).await;
    outlast_the_allowance(&here).await;
    let owner = eventually(async || (owner_of(&here, prepared.act.act_id).await.0 == "here").then_some(()));
    assert!(owner.await.is_some(), "taken over");
    (there, here, prepared)
}

/// The claim is overdue by the store's clock, and has been watched for the whole allowance.
async fn outlast_the_allowance(house: &House) {
    house.clock().advance(31);
    tokio::time::sleep(ALLOWANCE).await;
}

/// Whose claim it is, by house, and its epoch.
async fn owner_of(house: &House, act_id: ActId) -> (String, u64) {
    let act = house.act(act_id).await;
    let claim = match act.execution() {
        Some(e) => e.claim.clone(),
        None => act.closed().and_then(|c| c.claim.clone()).expect("a claim"),
    };
    let (owner, _) = claim.owner.split_once('.').expect("house.boot");
    (owner.to_owned(), claim.epoch)
}

fn progress(act: &Act) -> Progress {
    act.execution().expect("claimed").progress.clone()
}

/// Lets the first daemon's call go on.
fn wake(there: &House) {
    there.bank().open();
}

/// Both clocks go on together, a second at a time.
async fn pass(house: &House, seconds: u32) {
    for _ in 0..seconds {
        house.clock().advance(1);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn journal_of(house: &House, act_id: ActId) -> String {
    let rows = house.engine.journal(&duty(), act_id).await.expect("a journal");
    let bodies: Vec<String> = rows.into_iter().filter_map(|r| r.body).collect();
    bodies.join("\n")
}

// ---- taking over

#[tokio::test(start_paused = true)]
async fn a_silent_owners_act_is_taken_over_only_after_the_allowance_watched_here() {
    let (there, here, prepared) = paused(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    // By the store's clock the deadline passed days ago. That proves nothing.
    here.clock().advance(1_000_000);
    tokio::time::sleep(ALLOWANCE - Duration::from_secs(1)).await;
    assert_eq!(owner_of(&here, act_id).await, ("there".into(), 1));
    assert_eq!(here.state(act_id).await, State::Executing);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(owner_of(&here, act_id).await, ("here".into(), 2));
    let act = here.act(act_id).await;
    assert_eq!(act.state(), State::InDoubt);
    assert!(progress(&act).others_open && progress(&act).over_since.is_none());
    assert!(
        progress(&act).reason.contains("there.") || progress(&act).lookups > 0,
        "{}",
        progress(&act).reason
    );
    assert_eq!(here.engine.counts().await.expect("counts").takeovers, 1);
    assert_eq!(there.engine.counts().await.expect("counts").takeovers, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_moves_is_never_taken_over() {
    let (there, here) = two_houses(without_keys(LookupBy::Evidence)).await;
    there.bank().next(Call::Lost);
    let prepared = there.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    there.commit(brief(yes(&prepared, 2))).await;
    there.until(act_id, State::InDoubt).await;
    pass(&here, 600).await;
    assert_eq!(owner_of(&here, act_id).await, ("there".into(), 1));
    assert!(locked(&there.bank().looked).len() > 5, "it went on looking");
    assert_eq!(locked(&here.bank().looked).len(), 0, "and nobody else did");
}

#[tokio::test(start_paused = true)]
async fn a_restart_on_the_same_folder_takes_over_at_once_and_knows_that_the_call_is_over() {
    let mut house = in_house(without_keys(LookupBy::Reference), "there").build().await;
    house.bank().shut();
    let prepared = house.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    house.commit(brief(yes(&prepared, 2))).await;
    eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
    let started = tokio::time::Instant::now();
    house.restart().await;
    let act = house.until(act_id, State::InDoubt).await;
    assert!(
        tokio::time::Instant::now() - started < ALLOWANCE / 2,
        "nobody had to be watched"
    );
    assert!(progress(&act).over_since.is_some() && !progress(&act).others_open);
    eventually(async || (!locked(&house.bank().looked).is_empty()).then_some(())).await;
    pass(&house, 120).await;
    house.until(act_id, State::Failed).await;
    assert_eq!(house.bank().landed(act_id), 0);
}

/// A clone of the folder's volume: both daemons hold "the" lock, and each takes the other for an earlier run of its own.
#[tokio::test(start_paused = true)]
async fn a_daemon_on_a_copy_of_the_folder_is_not_taken_for_dead_by_what_it_claims_while_it_lives() {
    let there = in_house(without_keys(LookupBy::Reference), "there").build().await;
    let copy = there.neighbour("there").await;
    there.clock().advance(1);
    there.bank().shut();
    let prepared = there.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    there.commit(brief(yes(&prepared, 2))).await;
    let called = eventually(async || (locked(&there.bank().executes).len() == 1).then_some(())).await;
    assert!(called.is_some(), "the call is under way");

    copy.clock().advance(31);
    tokio::time::sleep(ALLOWANCE / 2).await;
    assert_eq!(
        owner_of(&copy, act_id).await,
        ("there".into(), 1),
        "it is watched"
    );
    assert_eq!(copy.state(act_id).await, State::Executing);
    tokio::time::sleep(ALLOWANCE).await;
    pass(&copy, 600).await;
    let act = copy.act(act_id).await;
    assert_eq!(act.execution().map(|e| e.claim.epoch), Some(2));
    assert!(progress(&act).others_open && progress(&act).over_since.is_none());
    assert_eq!(
        act.state(),
        State::InDoubt,
        "a call is open: nothing is concluded"
    );

    wake(&there);
    copy.until(act_id, State::Done).await;
    assert_eq!(copy.bank().landed(act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn behind_a_silent_owner_nothing_is_concluded_until_its_death_is_vouched_for() {
    let (_there, here, prepared) = taken_over(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    pass(&here, 600).await;
    assert!(locked(&here.bank().looked).len() > 2, "it is looked up");
    assert_eq!(
        here.state(act_id).await,
        State::InDoubt,
        "its owner may still send"
    );
    let refused = here.settle(act_id, false).await.expect_err("it can still land");
    assert_eq!(refused.reason, Reason::Refused);
    let with_death = SettleRequest {
        act_id,
        done: false,
        evidence: "the host is switched off; the bank shows nothing".into(),
        owner_dead: true,
    };
    // No lookup answers: it is the person who settles it. The window counts from the person's word.
    here.bank().shut_lookups();
    let early = here.engine.settle(&duty(), with_death.clone()).await;
    let early = early.expect_err("the window is open");
    assert_eq!(early.retry_after_s, Some(61), "{}", early.text);
    pass(&here, 50).await;
    assert!(here.engine.settle(&duty(), with_death.clone()).await.is_err());
    pass(&here, 11).await;
    let settled = here.engine.settle(&duty(), with_death).await.expect("settled");
    assert_eq!(settled.act.state(), State::Failed);
}

#[tokio::test(start_paused = true)]
async fn once_its_death_was_vouched_for_lookups_prove_the_rest() {
    let (_there, here, prepared) = taken_over(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    let word = SettleRequest {
        act_id,
        done: false,
        evidence: "the host is switched off".into(),
        owner_dead: true,
    };
    here.engine
        .settle(&duty(), word)
        .await
        .expect_err("the window is open");
    pass(&here, 200).await;
    assert_eq!(here.state(act_id).await, State::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_silent_owner_that_starts_again_on_its_folder_ends_the_doubt() {
    let (mut there, here, prepared) = taken_over(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    pass(&here, 300).await;
    assert_eq!(here.state(act_id).await, State::InDoubt);
    there.restart().await;
    pass(&here, 200).await;
    assert_eq!(here.state(act_id).await, State::Failed);
    assert_eq!(
        owner_of(&here, act_id).await,
        ("here".into(), 2),
        "the holder concluded"
    );
    assert!(journal_of(&here, act_id).await.contains("calls_over"));
    assert!(there.bank().nothing_was_sent());
}

// ---- a paused owner wakes

#[tokio::test(start_paused = true)]
async fn a_stale_owners_outcome_is_evidence_and_the_holder_settles_with_it() {
    let (there, here, prepared) = taken_over(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    // No lookup can help the holder: what it learns comes from the woken owner.
    here.bank().shut_lookups();
    pass(&here, 5).await;
    wake(&there);
    here.bank().open_lookups();
    let done = here.until(act_id, State::Done).await;
    assert_eq!(done.closed().and_then(|c| c.verdict), Some(Verdict::Match));
    assert_eq!(owner_of(&here, act_id).await, ("here".into(), 2));
    assert_eq!((here.bank().landed(act_id), here.bank().sendings(act_id)), (1, 1));
    let journal = journal_of(&here, act_id).await;
    assert!(
        journal.contains("late_evidence") && journal.contains("\"owner\":\"there."),
        "{journal}"
    );
    // Asked again, either daemon answers with the one line.
    let at_there = there.commit(yes(&prepared, 2)).await;
    let at_here = here.commit(yes(&prepared, 2)).await;
    assert!(at_there.reply.starts_with("RW1 DN "));
    assert_eq!(at_there.reply, at_here.reply);
    let dns = here.lines().await.iter().filter(|l| l.contains(" DN ")).count();
    assert_eq!(dns, 1);
    here.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_owners_no_settles_nothing_by_itself() {
    let (there, here, prepared) = taken_over(without_keys(LookupBy::Evidence)).await;
    let act_id = prepared.act.act_id;
    there.bank().next(Call::Rejected);
    wake(&there);
    let heard = eventually(async || {
        let journal = journal_of(&here, act_id).await;
        journal.contains("late_evidence").then_some(())
    });
    assert!(heard.await.is_some());
    pass(&here, 10).await;
    assert_eq!(here.state(act_id).await, State::InDoubt);
    assert_eq!(there.state(act_id).await, State::InDoubt);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_after_the_close_contradicts_it_and_is_counted_once() {
    let (there, here, prepared) = taken_over(without_keys(LookupBy::Evidence)).await;
    let act_id = prepared.act.act_id;
    let word = SettleRequest {
        act_id,
        done: false,
        evidence: "the host is switched off (it was not)".into(),
        owner_dead: true,
    };
    let early = here.engine.settle(&duty(), word.clone()).await;
    early.expect_err("the window is open");
    pass(&here, 61).await;
    let settled = here.engine.settle(&duty(), word).await.expect("settled");
    wake(&there);
    let contradicted = eventually(async || {
        let act = there.act(act_id).await;
        (act.closed()?.verdict == Some(Verdict::Contradicted)).then_some(act)
    });
    let contradicted = contradicted.await.expect("contradicted");
    assert_eq!(contradicted.state(), State::Failed);
    assert_eq!(contradicted.closed().map(|c| c.line.clone()), Some(settled.reply));
    assert_eq!(there.engine.counts().await.expect("counts").contradictions, 1);
    here.assert_thread_is_sound().await;
}

// ---- the same bytes again

#[tokio::test(start_paused = true)]
async fn a_keyed_counterparty_is_sent_the_same_bytes_again_and_does_them_once() {
    let (there, here, prepared) = taken_over(keyed()).await;
    let act_id = prepared.act.act_id;
    let done = here.until(act_id, State::Done).await;
    assert_eq!(done.closed().and_then(|c| c.verdict), Some(Verdict::Match));
    assert_eq!(locked(&here.bank().executes).len(), 1, "sent by the holder");
    assert!(
        !locked(&here.bank().looked).is_empty(),
        "and not before it had looked"
    );
    assert_eq!(here.engine.counts().await.expect("counts").resends, 1);
    assert!(journal_of(&here, act_id).await.contains("sent_again"));
    // The paused owner wakes and sends too: the counterparty knows the bytes.
    wake(&there);
    let twice = eventually(async || (there.bank().sendings(act_id) == 2).then_some(())).await;
    assert!(twice.is_some());
    settle_down().await;
    assert_eq!(there.bank().landed(act_id), 1);
    let after = there.act(act_id).await;
    assert_eq!(
        after.closed().map(|c| (&c.line, c.verdict)),
        done.closed().map(|c| (&c.line, c.verdict)),
        "evidence that agrees changes nothing"
    );
    here.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn where_a_second_sending_could_be_a_second_order_nothing_is_ever_sent_again() {
    for lookup in [
        LookupBy::Reference,
        LookupBy::NaturalKey,
        LookupBy::Evidence,
        LookupBy::None,
    ] {
        let (there, here, prepared) = taken_over(without_keys(lookup)).await;
        let act_id = prepared.act.act_id;
        pass(&here, 900).await;
        assert_eq!(locked(&here.bank().executes).len(), 0, "{lookup:?}");
        assert_eq!(here.state(act_id).await, State::InDoubt);
        let counts = here.engine.counts().await.expect("counts");
        assert_eq!((counts.resends, counts.escalated), (0, 1));
        wake(&there);
        here.until(act_id, State::Done).await;
        assert_eq!(here.bank().landed(act_id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_to_a_resend_does_not_fail_the_act() {
    for no in [Call::Rejected, Call::NotSent] {
        let (there, here, prepared) = {
            let (there, here, prepared) = paused(keyed()).await;
            here.bank().next(no.clone());
            outlast_the_allowance(&here).await;
            (there, here, prepared)
        };
        let act_id = prepared.act.act_id;
        let answered = eventually(async || {
            let sent = locked(&here.bank().executes).len() == 1;
            (sent && here.state(act_id).await == State::InDoubt).then_some(())
        });
        assert!(answered.await.is_some(), "{no:?}");
        let act = here.act(act_id).await;
        assert!(
            progress(&act).others_open,
            "the answer speaks for the second sending alone"
        );
        // The first sending lands after all.
        there.bank().land(act_id, &act.offer().expect("an offer").frozen);
        pass(&here, 30).await;
        here.until(act_id, State::Done).await;
        assert_eq!(here.bank().landed(act_id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_last_moment_of_the_act_it_is_only_looked_up() {
    let (there, here, prepared) = paused(keyed()).await;
    there.bank().asks_late.store(true, Ordering::SeqCst);
    let act_id = prepared.act.act_id;
    let last = there
        .act(act_id)
        .await
        .execution()
        .map(|e| e.claim.not_after)
        .expect("claimed");
    here.clock().set(last);
    tokio::time::sleep(ALLOWANCE).await;
    let looked = eventually(async || (!locked(&here.bank().looked).is_empty()).then_some(())).await;
    assert!(looked.is_some());
    pass(&here, 300).await;
    assert_eq!(locked(&here.bank().executes).len(), 0);
    // The woken owner is too late as well.
    wake(&there);
    settle_down().await;
    assert!(there.bank().nothing_was_sent());
    assert_eq!(here.state(act_id).await, State::InDoubt);
}

// ---- any daemon answers

#[tokio::test(start_paused = true)]
async fn what_one_daemon_prepared_another_commits_and_either_answers() {
    let (there, here) = two_houses(Plan::new()).await;
    let prepared = there.prepare(&ho(1)).await;
    let again = here.prepare(&ho(1)).await;
    assert!(again.replayed);
    assert_eq!((&again.reply, &again.token), (&prepared.reply, &prepared.token));
    let done = here.commit(yes(&prepared, 2)).await;
    assert!(done.reply.starts_with("RW1 DN ") && !done.replayed);
    let told = there.commit(yes(&prepared, 2)).await;
    assert_eq!((told.reply, told.replayed), (done.reply, true));
    assert_eq!(here.bank().sendings(prepared.act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_repeated_at_the_other_daemon_joins_the_running_one() {
    let (there, here, prepared) = paused(keyed()).await;
    let joined = {
        let (engine, request) = (here.engine.clone(), yes(&prepared, 2));
        tokio::spawn(async move { engine.commit(&scheduler(), request).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!joined.is_finished(), "it waits for the truth");
    wake(&there);
    let joined = joined.await.expect("no panic").expect("joined");
    assert!(joined.reply.starts_with("RW1 DN "), "{joined:?}");
    assert!(joined.replayed);
    assert_eq!(there.bank().sendings(prepared.act.act_id), 1);
    assert_eq!(
        locked(&here.bank().executes).len(),
        0,
        "the other daemon called nobody"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_at_one_daemon_hears_at_once_what_another_wrote() {
    let mut plan = Plan::new();
    // Nobody looks at the row by himself within this story.
    plan.config.poll_interval = Duration::from_secs(86_400);
    let memory = wilco_store::MemoryKeeper::new(plan.clock.clone());
    plan.keeper = FaultyKeeper::hinting(std::sync::Arc::new(memory));
    let (there, here, prepared) = paused(plan).await;
    let joined = {
        let (engine, request) = (here.engine.clone(), yes(&prepared, 2));
        tokio::spawn(async move { engine.commit(&scheduler(), request).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let woken = tokio::time::Instant::now();
    wake(&there);
    let joined = joined.await.expect("no panic").expect("joined");
    assert!(joined.reply.starts_with("RW1 DN "), "{joined:?}");
    assert_eq!(
        woken.elapsed(),
        Duration::ZERO,
        "no time passed but what the hint took"
    );
}

#[tokio::test(start_paused = true)]
async fn two_daemons_asked_at_once_claim_once() {
    for seed in 0..20 {
        let plan = Plan { seed, ..Plan::new() };
        let (there, here) = two_houses(plan).await;
        let prepared = there.prepare(&ho(1)).await;
        let (a, b) = tokio::join!(
            there.try_commit(yes(&prepared, 2)),
            here.try_commit(yes(&prepared, 2))
        );
        let (a, b) = (a.expect("answered"), b.expect("answered"));
        assert_eq!(a.reply, b.reply);
        assert!(a.reply.starts_with("RW1 DN "));
        assert_eq!(there.bank().sendings(prepared.act.act_id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_the_other_daemon_waits_for_the_truth_too() {
    let (there, here, prepared) = paused(keyed()).await;
    let cancelled = {
        let engine = here.engine.clone();
        let request = wilco_engine::CancelRequest {
            thread: String::new(),
            cx: cx(3, "scheduler-1"),
            wait: None,
        };
        tokio::spawn(async move { engine.cancel(&scheduler(), request).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    wake(&there);
    let cancelled = cancelled.await.expect("no panic").expect("answered");
    assert!(cancelled.reply.starts_with("RW1 DN "), "{}", cancelled.reply);
    assert_eq!(there.state(prepared.act.act_id).await, State::Done);
    here.assert_thread_is_sound().await;
}

// ---- what people are told

fn told(house: &House, act: &Act) -> wilco_engine::Doubt {
    house.engine.doubt(act).expect("executing or in doubt")
}

async fn timeline_of(house: &House, act_id: ActId) -> Vec<(String, String)> {
    let rows = house.engine.journal(&duty(), act_id).await.expect("a journal");
    wilco_engine::timeline(&rows)
        .into_iter()
        .map(|m| (m.what, m.text))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_act_in_doubt_says_who_holds_it_and_when_it_can_end() {
    let (there, here, prepared) = paused(without_keys(LookupBy::Reference)).await;
    let act_id = prepared.act.act_id;
    let running = here.act(act_id).await;
    assert!(told(&there, &running).owner_fate.contains("calling now"));
    let elsewhere = told(&here, &running);
    assert!(
        elsewhere
            .owner_fate
            .starts_with("another daemon; it last moved at 2026-10-02T12:00:00"),
        "{}",
        elsewhere.owner_fate
    );
    assert!(elsewhere.maybe_sent && elsewhere.decides_from.is_none() && elsewhere.settles_from.is_none());

    here.clock().advance(31);
    tokio::time::sleep(ALLOWANCE / 2).await;
    let watched = told(&here, &here.act(act_id).await).owner_fate;
    assert!(watched.contains("unchanged for 14 of 30 s"), "{watched}");

    tokio::time::sleep(ALLOWANCE).await;
    let act = here.act(act_id).await;
    let doubt = told(&here, &act);
    let silent = running
        .execution()
        .map(|e| e.claim.owner.clone())
        .expect("claimed");
    assert_eq!((doubt.epoch, &doubt.open_calls), (2, &vec![silent.clone()]));
    assert_eq!((doubt.decides_from, doubt.settles_from), (None, None));
    assert!(doubt.decides.contains(&silent) && doubt.settles.contains("60 s after"));

    // With its end vouched for, both the daemon and a person know from when they may speak.
    here.bank().shut_lookups();
    let word = SettleRequest {
        act_id,
        done: false,
        evidence: "the host is switched off".into(),
        owner_dead: true,
    };
    here.engine.settle(&duty(), word).await.expect_err("not yet");
    let act = here.act(act_id).await;
    let doubt = told(&here, &act);
    let window = Some(progress(&act).over_since.expect("over").plus_seconds(60));
    assert_eq!((doubt.decides_from, doubt.settles_from), (window, window));
    let stamps: Vec<String> = timeline_of(&here, act_id)
        .await
        .into_iter()
        .map(|(what, _)| what)
        .collect();
    assert_eq!(stamps.first().map(String::as_str), Some("claimed"));
    for what in ["taken over", "lookup", "calls over"] {
        assert!(stamps.iter().any(|s| s == what), "{what}: {stamps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_person_can_settle_says_so() {
    let (house, _here) = two_houses(without_keys(LookupBy::Evidence)).await;
    house.bank().next(Call::Lost);
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    let act = house.until(prepared.act.act_id, State::InDoubt).await;
    let doubt = told(&house, &act);
    assert_eq!(doubt.decides_from, None);
    assert!(
        doubt.decides.contains("a person must settle it"),
        "{}",
        doubt.decides
    );
    assert_eq!(
        doubt.settles_from,
        progress(&act).over_since.map(|over| over.plus_seconds(60))
    );
    assert!(
        house.engine.doubt(&prepared.act).is_none(),
        "not claimed: no doubt"
    );
}

#[tokio::test(start_paused = true)]
async fn a_contradiction_is_told_with_what_was_heard() {
    let (there, here, prepared) = taken_over(without_keys(LookupBy::Evidence)).await;
    let act_id = prepared.act.act_id;
    let word = SettleRequest {
        act_id,
        done: false,
        evidence: "the host is switched off (it was not)".into(),
        owner_dead: true,
    };
    here.engine
        .settle(&duty(), word.clone())
        .await
        .expect_err("not yet");
    pass(&here, 61).await;
    here.engine.settle(&duty(), word).await.expect("settled");
    wake(&there);
    let against = eventually(async || {
        let act = here.act(act_id).await;
        (act.closed()?.verdict == Some(Verdict::Contradicted)).then_some(act)
    });
    let notes = against
        .await
        .and_then(|a| a.closed().map(|c| c.notes.clone()))
        .expect("notes");
    let receipt = format!("receipt receipt-{act_id}");
    assert!(
        notes
            .iter()
            .any(|n| n.contains("contradicts") && n.contains(&receipt)),
        "{notes:?}"
    );
    let timeline = timeline_of(&here, act_id).await;
    let (what, text) = timeline.last().expect("a moment");
    assert_eq!(what, "late evidence");
    assert!(
        text.starts_with("executed from there.") && text.contains(&receipt),
        "{text}"
    );
}
