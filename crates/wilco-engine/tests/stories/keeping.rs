//! Starting, stopping, and who sees what.

use std::time::Duration;

use wilco_adapter::Adapter;
use wilco_core::{Reason, State};
use wilco_engine::{ActRef, CommitRequest, Role, StartError};
use wilco_store::Filter;

use crate::common::*;

fn brief(request: CommitRequest) -> CommitRequest {
    CommitRequest {
        wait: Some(Duration::ZERO),
        ..request
    }
}

#[tokio::test(start_paused = true)]
async fn everyone_sees_their_own_and_what_is_not_yours_is_unknown() {
    let house = house().await;
    let mine = house.prepare(&ho(1)).await;
    let theirs = house
        .prepare_as(&sender("auditor"), "", &ho_of("auditor", 1))
        .await
        .expect("prepared");
    let listed = async |caller: &wilco_engine::Caller| {
        let page = house
            .engine
            .acts(caller, Filter::default())
            .await
            .expect("a list");
        page.items.into_iter().map(|a| a.act_id).collect::<Vec<_>>()
    };
    assert_eq!(listed(&scheduler()).await, [mine.act.act_id]);
    assert_eq!(listed(&sender("auditor")).await, [theirs.act.act_id]);
    for role in [Role::Operator, Role::Viewer, Role::Approver] {
        assert_eq!(listed(&with_role("w", role)).await.len(), 2, "{role:?}");
    }
    let mut nobody = scheduler();
    nobody.roles.clear();
    assert_eq!(listed(&nobody).await, []);

    let nonsense = wilco_core::ActId::new(NOON, [1; 10]);
    let unknown = house
        .engine
        .act(&sender("auditor"), &ActRef::Id(nonsense))
        .await
        .expect_err("unknown");
    assert_eq!(unknown.reason, Reason::UnknownAct);
    let by_handoff = ActRef::Handoff {
        thread: "scheduler".into(),
        handoff_id: "scheduler-1".into(),
    };
    for which in [ActRef::Id(mine.act.act_id), by_handoff.clone()] {
        let refused = house
            .engine
            .act(&sender("auditor"), &which)
            .await
            .expect_err("not theirs");
        assert_eq!(refused, unknown);
        assert!(house.engine.act(&nobody, &which).await.is_err());
        assert!(house.engine.act(&scheduler(), &which).await.is_ok());
        assert!(house.engine.act(&duty(), &which).await.is_ok());
    }
    assert!(
        house
            .engine
            .journal(&sender("auditor"), mine.act.act_id)
            .await
            .is_err()
    );
    let token = ActRef::Token(mine.token.clone());
    assert!(house.engine.act(&scheduler(), &token).await.is_ok());
    for caller in [sender("auditor"), duty()] {
        let refused = house.engine.act(&caller, &token).await.expect_err("not theirs");
        assert_eq!(refused.reason, Reason::UnknownToken);
    }
    let thread = house.engine.thread(&sender("auditor"), "scheduler", None).await;
    let nowhere = house.engine.thread(&sender("auditor"), "nowhere", None).await;
    assert_eq!(thread.expect_err("not theirs"), nowhere.expect_err("unknown"));
    assert!(house.engine.thread(&scheduler(), "scheduler", None).await.is_ok());

    // In a thread that several share, each sees its own lines; whoever watches over all sees them all.
    let guest = ho_of("auditor", 7);
    house
        .prepare_as(&sender("auditor"), "scheduler", &guest)
        .await
        .expect("prepared");
    let shown = async |caller: &wilco_engine::Caller| {
        let view = house.engine.thread(caller, "scheduler", None).await;
        let view = view.expect("a thread");
        assert_eq!(view.problems, []);
        view.lines
    };
    assert!(
        shown(&scheduler())
            .await
            .iter()
            .all(|line| !line.contains("auditor"))
    );
    assert!(
        shown(&sender("auditor"))
            .await
            .iter()
            .all(|line| !line.contains("scheduler"))
    );
    assert_eq!(shown(&duty()).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_sender_speaks_for_its_agents_alone_and_an_operator_for_none() {
    let house = house().await;
    for caller in [
        sender("auditor"),
        duty(),
        wilco_engine::Caller {
            roles: vec![Role::Operator, Role::Viewer, Role::Approver],
            ..scheduler()
        },
    ] {
        let refused = house
            .prepare_as(&caller, "", &ho(1))
            .await
            .expect_err("not theirs");
        assert_eq!(refused.reason, Reason::NotYours);
        let request = wilco_engine::CancelRequest {
            cx: cx(2, "scheduler-1"),
            ..Default::default()
        };
        let refused = house
            .engine
            .cancel(&caller, request)
            .await
            .expect_err("not theirs");
        assert_eq!(refused.reason, Reason::NotYours);
    }
    let acts = house
        .engine
        .acts(&duty(), Filter::default())
        .await
        .expect("a list");
    assert_eq!(acts.items, []);
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_no_statement_as_live_that_is_over() {
    let mut plan = Plan::new();
    plan.config.recovery_interval = Duration::from_secs(3600);
    let house = plan.build().await;
    let prepared = house.prepare(&ho(1)).await;
    house.clock().advance(300);
    let live = Filter {
        states: vec![State::Prepared],
        ..Filter::default()
    };
    assert_eq!(
        house
            .engine
            .acts(&duty(), live)
            .await
            .expect("a list")
            .items
            .len(),
        0
    );
    assert_eq!(house.state(prepared.act.act_id).await, State::Lapsed);
}

#[tokio::test(start_paused = true)]
async fn a_thread_name_is_short_and_plain() {
    let house = house().await;
    for name in ["two words", "tab\there", "line\nend", "\u{1}", &"x".repeat(201)] {
        let refused = house
            .prepare_as(&scheduler(), name, &ho(1))
            .await
            .expect_err(name);
        assert_eq!(
            (refused.reason, refused.field.as_deref()),
            (Reason::Malformed, Some("thread"))
        );
    }
    assert!(
        house
            .prepare_as(&scheduler(), &"x".repeat(200), &ho(1))
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_takes_no_new_work_and_waits_for_what_runs() {
    let mut house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let waiting = house.prepare(&ho(5)).await;
    house.bank().shut();
    house.commit(brief(yes(&prepared, 2))).await;
    eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
    let engine = house.engine.clone();
    let drained = tokio::spawn(async move { engine.drain(Duration::from_secs(30)).await });
    eventually(async || house.engine.ready().is_err().then_some(())).await;
    for refused in [
        house.try_prepare(&ho(3)).await.expect_err("stopping").reason,
        house
            .try_commit(yes(&waiting, 6))
            .await
            .expect_err("stopping")
            .reason,
        house
            .try_cancel(&cx(7, "scheduler-5"))
            .await
            .expect_err("stopping")
            .reason,
    ] {
        assert_eq!(refused, Reason::Halted);
    }
    assert!(!drained.is_finished(), "it waits for the running act");
    house.bank().open();
    assert_eq!(drained.await.expect("drained"), 0);
    house.restart().await;
    assert_eq!(house.state(prepared.act.act_id).await, State::Done);
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_grace_runs_out_leaves_the_act_to_the_next_start() {
    let mut house = house().await;
    house.bank().shut();
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
    assert_eq!(house.engine.drain(Duration::from_millis(20)).await, 1);
    house.bank().land(
        prepared.act.act_id,
        &prepared.act.offer().expect("an offer").frozen,
    );
    house.restart().await;
    house.until(prepared.act.act_id, State::Done).await;
    assert_eq!(locked(&house.bank().executes).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_lookup_that_has_no_place() {
    let house = house().await;
    house.bank().next(Call::Lost);
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    house.until(prepared.act.act_id, State::InDoubt).await;
    // Nothing runs now: in doubt is no reason to stay.
    assert_eq!(house.engine.drain(Duration::from_secs(30)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn open_acts_whose_adapter_agent_or_profile_is_gone_keep_the_engine_from_starting() {
    let mut house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let bank = house.plan.banks.remove(0);
    house.plan.banks.push(Bank::new("another"));
    let refused = house.try_restart().await.expect_err("orphans");
    assert!(
        matches!(&refused, StartError::Orphans(what) if what == "adapter bank"),
        "{refused}"
    );
    assert!(refused.to_string().contains("--orphan"));

    house.plan.banks[0] = bank.clone();
    house.plan.config.agents = vec!["auditor".into()];
    let refused = house.try_restart().await.expect_err("orphans");
    assert!(
        matches!(&refused, StartError::Orphans(what) if what == "agent payer"),
        "{refused}"
    );

    // Told so, it serves, and what it cannot serve stays as it is.
    house.plan.banks[0] = Bank::new("another");
    house.plan.config.orphan = true;
    house.try_restart().await.expect("it starts");
    let refused = house.try_commit(yes(&prepared, 2)).await.expect_err("no adapter");
    assert_eq!(refused.reason, Reason::AdapterDown);
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);

    // Closed acts need nobody.
    house.plan.config = config();
    house.plan.banks[0] = bank;
    house.try_restart().await.expect("it starts");
    house.cancel(&cx(3, "scheduler-1")).await;
    house.plan.banks[0] = Bank::new("another");
    house.try_restart().await.expect("it starts");
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_key_keeps_the_engine_from_starting_while_a_token_needs_it() {
    let mut house = house().await;
    house.prepare(&ho(1)).await;
    house.plan.keys = vec![key(2)];
    let refused = house.try_restart().await.expect_err("the key is gone");
    assert!(
        matches!(&refused, StartError::Orphans(what) if what == "token key k1 (its line in token.key)"),
        "{refused}"
    );
    house.plan.keys = vec![key(2), key(1)];
    house.restart().await;
    house.cancel(&cx(3, "scheduler-1")).await;
    house.plan.keys = vec![key(2)];
    house.try_restart().await.expect("closed acts need no token");
}

#[tokio::test(start_paused = true)]
async fn open_acts_are_looked_at_only_when_something_is_gone_that_was_there() {
    let mut house = house().await;
    house.prepare(&ho(1)).await;
    let had = house.engine.serves();
    assert_eq!(had.missing_from(&had), [] as [String; 0]);
    house.plan.banks.push(Bank::new("records"));
    *locked(&house.plan.banks[1].asks) = vec!["CHGBANK"];
    house
        .try_restart_after(Some(&had))
        .await
        .expect("it has more now");

    house.plan.banks.remove(0);
    let refused = house.try_restart_after(Some(&had)).await.expect_err("looked for");
    assert!(matches!(&refused, StartError::Orphans(what) if what == "adapter bank"));
    // It goes by what it is told: without the bank's name in it, nobody looks.
    let without = house.plan.banks[0].clone();
    let mut less = had.clone();
    less.adapters = [without.describe().name].into();
    house
        .try_restart_after(Some(&less))
        .await
        .expect("nothing was gone");
}

#[tokio::test(start_paused = true)]
async fn texts_are_erased_by_an_operator_once_they_are_old_and_the_answer_stays() {
    let house = house().await;
    let open = house.prepare(&ho(1)).await;
    let prepared = house.prepare(&ho(2)).await;
    let done = house.commit(yes(&prepared, 3)).await;
    let day_s = 86_400;
    let refused = house.engine.purge(&scheduler(), day_s).await;
    assert_eq!(refused.expect_err("not theirs").reason, Reason::NotYours);
    for age in [0, day_s - 1, u64::MAX] {
        let refused = house.engine.purge(&duty(), age).await.expect_err("too young");
        assert_eq!(refused.field.as_deref(), Some("older_than_s"));
    }
    let young = house.engine.purge(&duty(), day_s).await.expect("nothing to do");
    assert_eq!((young.acts, young.more), (0, false));
    house.clock().advance(2 * 86_400);
    // The open one expired meanwhile, a moment ago: it is young.
    house.until(open.act.act_id, State::Failed).await;
    let purged = house.engine.purge(&duty(), day_s).await.expect("erased");
    assert_eq!((purged.acts, purged.more), (1, false));
    assert!(purged.bodies > 0);
    assert_eq!(house.act(prepared.act.act_id).await.handoff.line, "");
    let again = house.commit(yes(&prepared, 3)).await;
    assert_eq!((again.reply, again.replayed), (done.reply, true));
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn an_act_in_doubt_whose_adapter_is_gone_stays_in_doubt() {
    let mut house = house().await;
    house.bank().next(Call::LandsUnheard);
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    house.until(prepared.act.act_id, State::InDoubt).await;
    let bank = std::mem::replace(&mut house.plan.banks[0], Bank::new("another"));
    house.plan.config.orphan = true;
    house.restart().await;
    house.clock().advance(10_000);
    settle_down().await;
    assert_eq!(house.state(prepared.act.act_id).await, State::InDoubt);
    house.plan.banks[0] = bank;
    house.restart().await;
    house.until(prepared.act.act_id, State::Done).await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_make_no_sense_are_named() {
    let mut plan = Plan::new();
    plan.keys.clear();
    assert!(matches!(
        plan.try_build().await.err(),
        Some(StartError::Config(_))
    ));
    let mut plan = Plan::new();
    plan.banks.push(Bank::new("second"));
    let refused = plan.try_build().await.err().expect("refused").to_string();
    assert!(
        refused.contains("bank") && refused.contains("second") && refused.contains("pay PAY"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stepped_back_stops_the_work_until_it_is_acknowledged() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.clock().advance(200);
    house.prepare(&ho(3)).await;
    house.clock().advance(-100);
    assert!(house.engine.ready().is_err_and(|why| why.contains("behind")));
    let refused = house.try_commit(yes(&prepared, 2)).await.expect_err("stopped");
    assert_eq!(refused.reason, Reason::StoreDown);
    wilco_store::Keeper::acknowledge_clock(&**house.keeper());
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn the_narrower_of_the_frozen_and_the_current_contract_decides() {
    let mut house = house().await;
    house.bank().next(Call::Lost);
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    house.until(prepared.act.act_id, State::InDoubt).await;
    // The adapter has learned since that its counterparty settles ten times as slowly.
    locked(&house.bank().contract).settle_window_s = 600;
    house.restart().await;
    for _ in 0..9 {
        house.clock().advance(60);
        settle_down().await;
        assert_eq!(house.state(prepared.act.act_id).await, State::InDoubt);
    }
    for _ in 0..20 {
        house.clock().advance(60);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    house.until(prepared.act.act_id, State::Failed).await;
}

#[tokio::test]
async fn a_full_counterparty_takes_no_claim_and_a_full_house_no_new_work() {
    for full in ["the bank", "the house"] {
        let mut plan = Plan::new();
        if full == "the bank" {
            plan.banks[0]
                .concurrency
                .store(2, std::sync::atomic::Ordering::SeqCst);
        } else {
            plan.config.concurrency = 2;
        }
        let house = plan.build().await;
        let mut prepared = Vec::new();
        for n in [1, 3, 5] {
            prepared.push(house.prepare(&ho(n)).await);
        }
        house.bank().shut();
        for (prepared, n) in prepared.iter().zip([2, 4]) {
            house.commit(brief(yes(prepared, n))).await;
        }
        // No place comes free: it is told so before anything is claimed.
        let (commit, handoff) = (house.try_commit(yes(&prepared[2], 6)), ho(7));
        let (busy, also_busy) = tokio::join!(commit, house.try_prepare(&handoff));
        assert_eq!(busy.expect_err("busy").reason, Reason::Busy, "{full}");
        assert_eq!(also_busy.expect_err("busy").reason, Reason::Busy, "{full}");
        assert_eq!(
            house.state(prepared[2].act.act_id).await,
            State::Prepared,
            "{full}"
        );
        assert_eq!(locked(&house.bank().executes).len(), 2, "{full}");
        house.bank().open();
        assert_eq!(house.commit(yes(&prepared[2], 6)).await.act.state(), State::Done);
    }
}
