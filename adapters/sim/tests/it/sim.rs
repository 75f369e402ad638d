//! After: a simulated counterparty that behaves as its contract says, whatever goes wrong on the way. Its own book is
//! asked what really happened; the adapter is asked what it would tell the daemon. The two may differ only in the ways
//! a real counterparty and a real network make them differ.

use std::sync::Arc;

use crate::support::{Moves, Scene, permit};
use adapter_sim::{Fault, LookupFault, ResolveFault, SimAdapter, SimConfig, SimGuarantee, SimStanding};
use wilco_adapter::{Adapter, Found, Outcome, Ready, ResolveError, Undone};
use wilco_core::Guarantee;
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};

const MARLOW: &str = "40-12-88/61102938";
const DEBTOR: &str = "20-00-00/55779911";

fn config(guarantee: SimGuarantee) -> SimConfig {
    SimConfig {
        guarantee,
        accounts: [("marlow".to_owned(), MARLOW.to_owned())].into(),
        ..SimConfig::default()
    }
}

fn replayable() -> Scene {
    Scene::new(config(SimGuarantee::Replayable))
}

#[tokio::test]
async fn what_was_stated_is_what_the_book_shows() {
    let scene = replayable();
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    assert!(scene.world.orders().is_empty(), "resolve moves nothing");
    assert!(frozen.extra.contains(&("x_sim".to_owned(), "Y".to_owned())));

    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}")
    };
    let slots: Vec<&str> = report.values.iter().map(|(slot, _)| slot.as_str()).collect();
    assert_eq!(
        slots,
        ["amt", "cur", "acct", "paid", "ref"],
        "what it plays not to know is left out"
    );
    for (slot, value) in &report.values {
        assert_eq!(frozen.value(slot), Some(value.as_str()), "{slot}");
    }
    let orders = scene.world.orders_of(job.act_id);
    assert_eq!(orders.len(), 1);
    assert_eq!(Some(orders[0].receipt.clone()), report.receipt);
    assert_eq!(scene.world.balance_of(MARLOW), 540_000);
    assert_eq!(scene.world.balance_of(DEBTOR), -540_000);
    assert_eq!(scene.world.balances_sum(), 0);
}

#[tokio::test]
async fn the_register_is_stated_even_where_the_handoff_says_otherwise() {
    let scene = replayable();
    let mut job = scene.pay();
    for (slot, value) in &mut job.slots {
        if slot == "acct" {
            *value = "40-12-88/61102983".to_owned();
        }
    }
    assert_eq!(scene.prepare(&job).await.value("acct"), Some(MARLOW));
    job.slots.retain(|(slot, _)| slot != "ref");
    let refused = scene.adapter.resolve(&job).await;
    let Err(ResolveError::Refused { why: "NOCTX", text }) = refused else {
        panic!("{refused:?}")
    };
    assert!(text.contains("slot ref"), "{text}");
}

/// What the guarantees come to when the same bytes arrive twice.
#[tokio::test]
async fn the_same_bytes_twice_act_once_only_where_the_contract_says_so() {
    for (guarantee, effects) in [
        (SimGuarantee::Replayable, 1),
        (SimGuarantee::Verifiable, 2),
        (SimGuarantee::Blind, 2),
    ] {
        let scene = Scene::new(config(guarantee));
        let job = scene.pay();
        let frozen = scene.prepare(&job).await;
        let first = scene.execute(&job, &frozen).await;
        let second = scene.execute(&job, &frozen).await;
        assert_eq!(scene.world.effects_of(job.act_id), effects, "{guarantee:?}");
        assert_eq!(scene.world.balance_of(MARLOW), 540_000 * effects as i128);
        assert_eq!(
            first == second,
            effects == 1,
            "{guarantee:?}: a replay answers with the first order"
        );
        assert_eq!(
            (
                scene.world.sendings_of(job.act_id),
                scene.world.arrivals_of(job.act_id)
            ),
            (2, 2)
        );
    }
}

#[tokio::test]
async fn a_forgotten_key_acts_again_and_a_known_one_with_other_bytes_is_refused() {
    let mut config = config(SimGuarantee::Replayable);
    config.key_window_s = Some(600);
    let scene = Scene::new(config);
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;

    let mut other = frozen.clone();
    other.request.body = other.request.body.replace("5400.00", "5100.00");
    let refused = scene.execute(&job, &other).await;
    assert!(
        matches!(&refused, Outcome::Rejected(text) if text.contains("other bytes")),
        "{refused:?}"
    );

    scene.pass(599);
    scene.execute(&job, &frozen).await;
    assert_eq!(scene.world.effects_of(job.act_id), 1);
    scene.pass(1);
    scene.execute(&job, &frozen).await;
    assert_eq!(
        scene.world.effects_of(job.act_id),
        2,
        "the key is pruned after its window"
    );
}

/// Each fault: what the daemon hears, what is in the book then, and what a lookup says.
#[tokio::test]
async fn each_fault_does_what_its_name_says() {
    #[derive(Debug, PartialEq)]
    enum Hears {
        Executed,
        Accepted,
        Rejected,
        NotSent,
        Unknown,
    }
    #[derive(Debug, PartialEq)]
    enum Sees {
        Executed,
        Accepted,
        Absent,
    }
    let cases = [
        (Fault::Fine, Hears::Executed, 1, Sees::Executed),
        (Fault::NotConnected, Hears::NotSent, 0, Sees::Absent),
        (Fault::LostBefore, Hears::Unknown, 0, Sees::Absent),
        (Fault::LostAfter, Hears::Unknown, 1, Sees::Executed),
        (Fault::Garbage, Hears::Unknown, 1, Sees::Executed),
        (Fault::Late(30), Hears::Unknown, 0, Sees::Absent),
        (Fault::Duplicate, Hears::Executed, 1, Sees::Executed),
        (Fault::Slow(5), Hears::Executed, 1, Sees::Executed),
        (Fault::Stalled(5), Hears::Executed, 1, Sees::Executed),
        (Fault::Unfinished(30), Hears::Accepted, 1, Sees::Accepted),
        (
            Fault::UnfinishedThenRejected(30),
            Hears::Accepted,
            1,
            Sees::Accepted,
        ),
        (Fault::Reject, Hears::Rejected, 0, Sees::Absent),
        (Fault::Hidden(1), Hears::Unknown, 1, Sees::Absent),
    ];
    for (fault, hears, effects, sees) in cases {
        let scene = replayable();
        let job = scene.pay();
        let frozen = scene.prepare(&job).await;
        scene.world.script(fault.clone());
        let heard = match scene.execute(&job, &frozen).await {
            Outcome::Executed(_) => Hears::Executed,
            Outcome::Accepted(_) => Hears::Accepted,
            Outcome::Rejected(_) => Hears::Rejected,
            Outcome::NotSent(_) => Hears::NotSent,
            Outcome::Unknown(_) => Hears::Unknown,
        };
        assert_eq!(heard, hears, "{fault:?}");
        assert_eq!(scene.world.effects_of(job.act_id), effects, "{fault:?}");
        let seen = match scene.adapter.lookup(job.act_id, &frozen, job.now, None).await {
            Found::Executed(_) => Sees::Executed,
            Found::Accepted(_) => Sees::Accepted,
            Found::Absent(_) => Sees::Absent,
            other => panic!("{fault:?}: {other:?}"),
        };
        assert_eq!(seen, sees, "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_late_lands_when_its_time_has_come_whoever_asks() {
    let scene = replayable();
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene.world.script_of(job.act_id, Fault::Late(30));
    scene.execute(&job, &frozen).await;
    assert_eq!(scene.world.next_event_at(), Some(job.now.plus_seconds(30)));
    scene.pass(29);
    assert!(matches!(
        scene.adapter.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Absent(_)
    ));
    scene.pass(1);
    assert!(matches!(
        scene.adapter.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Executed(_)
    ));
    assert_eq!(scene.world.orders()[0].landed_at, job.now.plus_seconds(30));
    assert_eq!(scene.world.next_event_at(), None);
}

#[tokio::test]
async fn what_was_taken_on_ends_one_way_or_the_other() {
    for (fault, balance) in [
        (Fault::Unfinished(30), 540_000),
        (Fault::UnfinishedThenRejected(30), 0),
    ] {
        let scene = replayable();
        let job = scene.pay();
        let frozen = scene.prepare(&job).await;
        scene.world.script(fault);
        scene.execute(&job, &frozen).await;
        assert_eq!(scene.world.balance_of(MARLOW), 0, "not before it is finished");
        scene.pass(30);
        let found = scene.adapter.lookup(job.act_id, &frozen, job.now, None).await;
        assert_eq!(matches!(found, Found::Executed(_)), balance > 0, "{found:?}");
        assert_eq!(matches!(found, Found::Rejected(_)), balance == 0, "{found:?}");
        assert_eq!(scene.world.balance_of(MARLOW), balance);
    }
}

#[tokio::test]
async fn another_value_is_reported_as_it_was_carried_out() {
    let scene = replayable();
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene
        .world
        .script(Fault::WrongValue("amt".to_owned(), "5100.00".to_owned()));
    let Outcome::Executed(report) = scene.execute(&job, &frozen).await else {
        panic!("executed")
    };
    assert!(report.values.contains(&("amt".to_owned(), "5100.00".to_owned())));
    assert_eq!(scene.world.balance_of(MARLOW), 510_000);
}

#[tokio::test]
async fn too_late_is_never_sent() {
    let scene = replayable();
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    let permit = permit(&job, &frozen, scene.clock.clone());
    scene.pass(3_600);
    let outcome = scene.adapter.execute(permit, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert_eq!(scene.world.sendings_of(job.act_id), 0);
}

#[tokio::test]
async fn a_delay_may_make_a_sending_too_late() {
    let mut config = config(SimGuarantee::Replayable);
    config.delay_ms = 60_000;
    let scene = Scene::new(config);
    let pause = Arc::new(Moves(scene.clock.clone()));
    let adapter = SimAdapter::with_world(&scene.config, scene.world.clone(), pause);
    let adapter = adapter.unwrap_or_else(|e| panic!("{e}"));
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene.pass(3_600 - 60);
    let outcome = adapter
        .execute(permit(&job, &frozen, scene.clock.clone()), &frozen)
        .await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_counterparty_with_expiring_orders_refuses_late_bytes_itself() {
    let mut config = config(SimGuarantee::Verifiable);
    config.refused_after_s = Some(120);
    let scene = Scene::new(config);
    let contract = scene.adapter.describe().serves[0].contract.clone();
    assert_eq!(contract.late_send, LateSend::RefusedAfter(120));
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene.pass(120);
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::Rejected(text) if text.contains("too late")),
        "{outcome:?}"
    );
    assert_eq!(scene.world.effects_of(job.act_id), 0);
}

#[tokio::test]
async fn blind_cannot_be_asked_unless_it_keeps_an_archive() {
    for evidence_only in [false, true] {
        let mut config = config(SimGuarantee::Blind);
        config.evidence_only = evidence_only;
        let scene = Scene::new(config);
        let contract = scene.adapter.describe().serves[0].contract.clone();
        assert_eq!(contract.guarantee(), Guarantee::Blind);
        assert!(!contract.absence_can_be_proved());
        let job = scene.pay();
        let frozen = scene.prepare(&job).await;
        scene.world.script(Fault::LostAfter);
        scene.execute(&job, &frozen).await;
        let found = scene.adapter.lookup(job.act_id, &frozen, job.now, None).await;
        assert_eq!(matches!(found, Found::Executed(_)), evidence_only, "{found:?}");
    }
}

#[tokio::test]
async fn contracts_say_what_the_configuration_says() {
    let contract = |config: &SimConfig| {
        Scene::new(config.clone()).adapter.describe().serves[0]
            .contract
            .clone()
    };
    let mut config = config(SimGuarantee::Replayable);
    assert_eq!(contract(&config).identity, Identity::Enforced);
    assert_eq!(contract(&config).reversal, Reversal::NewAct);
    config.key_window_s = Some(60);
    config.settle_window_s = 7;
    assert_eq!(contract(&config).identity, Identity::Window(60));
    assert_eq!(contract(&config).settle_window_s, 7);
    config.serves.retain(|s| s.ask == "PAY");
    assert_eq!(contract(&config).reversal, Reversal::None);
    config.key_window_s = None;
    config.guarantee = SimGuarantee::Verifiable;
    assert_eq!(
        (contract(&config).identity, contract(&config).lookup),
        (Identity::None, LookupBy::Reference)
    );
}

#[tokio::test]
async fn an_undo_reverses_what_was_executed_once() {
    let scene = replayable();
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    scene
        .world
        .script(Fault::WrongValue("amt".to_owned(), "5100.00".to_owned()));
    let Outcome::Executed(report) = scene.execute(&job, &frozen).await else {
        panic!("executed")
    };
    let exec = ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"];
    let undo = |scene: &Scene| {
        let slots = [
            ("sup", "marlow"),
            ("kind", "GROSS"),
            ("apref", "FD-0929"),
            ("amt", "5400.00"),
        ];
        let mut undo = scene.job("UNDO", &slots, &exec);
        undo.undo = Some(Undone {
            ask: "PAY".to_owned(),
            act_id: job.act_id,
            frozen: frozen.clone(),
            executed: report.values.clone(),
            receipt: report.receipt.clone(),
        });
        undo
    };
    let first = undo(&scene);
    let frozen_undo = scene.prepare(&first).await;
    assert_eq!(
        frozen_undo.value("amt"),
        Some("5100.00"),
        "as executed, not as the handoff has it"
    );
    let outcome = scene.execute(&first, &frozen_undo).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(scene.world.balance_of(MARLOW), 0);
    assert_eq!(scene.world.balances_sum(), 0);
    let orders = scene.world.orders();
    assert_eq!(orders[0].reversed_by.as_ref(), Some(&orders[1].receipt));
    assert_eq!(orders[1].reverses.as_ref(), Some(&orders[0].receipt));

    let second = undo(&scene);
    let frozen_second = scene.prepare(&second).await;
    let outcome = scene.execute(&second, &frozen_second).await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    let found = scene
        .adapter
        .lookup(second.act_id, &frozen_second, second.now, None)
        .await;
    assert!(matches!(found, Found::Rejected(_)), "{found:?}");
    assert_eq!(scene.world.balance_of(MARLOW), 0);
}

#[tokio::test]
async fn an_undo_of_nothing_is_refused() {
    let scene = replayable();
    let job = scene.job("UNDO", &[], &["amt"]);
    let refused = scene.adapter.resolve(&job).await;
    assert!(
        matches!(refused, Err(ResolveError::Refused { why: "NOCTX", .. })),
        "{refused:?}"
    );
    let job = scene.job("SEND", &[], &[]);
    let refused = scene.adapter.resolve(&job).await;
    assert!(
        matches!(refused, Err(ResolveError::Refused { why: "NOCAP", .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_change_of_bank_details_states_what_it_replaces_and_swaps_only_that() {
    let scene = replayable();
    let slots = [
        ("sup", "marlow"),
        ("acct", "60-08-15/83350416"),
        ("eff", "20261003"),
        ("apref", "FD-0931"),
    ];
    let exec = ["sup", "acct", "eff", "apref", "prev"];
    let job = scene.job("CHGBANK", &slots, &exec);
    let frozen = scene.prepare(&job).await;
    assert_eq!(
        frozen.value("prev"),
        Some(MARLOW),
        "resolved: the handoff does not carry it"
    );
    let stale = scene.job("CHGBANK", &slots, &exec);
    let frozen_stale = scene.prepare(&stale).await;

    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(
        scene.world.on_file("marlow").as_deref(),
        Some("60-08-15/83350416")
    );

    let outcome = scene.execute(&stale, &frozen_stale).await;
    assert!(
        matches!(&outcome, Outcome::Rejected(text) if text.contains("on file")),
        "{outcome:?}"
    );

    let unknown = scene.job(
        "CHGBANK",
        &[("sup", "nobody"), ("acct", "a"), ("eff", "b"), ("apref", "c")],
        &exec,
    );
    let refused = scene.adapter.resolve(&unknown).await;
    assert!(
        matches!(&refused, Err(ResolveError::Refused { text, .. }) if text.contains("slot prev")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_person_may_have_to_say_yes() {
    let scene = replayable();
    scene.world.set_approvals(true);
    let job = scene.pay();
    let frozen = scene.prepare(&job).await;
    assert!(frozen.authorise_at.is_some());
    let ready = scene.adapter.ready(job.act_id, &frozen).await;
    assert!(
        matches!(ready, Ready::Awaiting { link: Some(_), .. }),
        "{ready:?}"
    );
    scene.world.answer_approval(job.act_id, false);
    assert!(matches!(
        scene.adapter.ready(job.act_id, &frozen).await,
        Ready::Refused { .. }
    ));
    scene.world.answer_approval(job.act_id, true);
    assert_eq!(scene.adapter.ready(job.act_id, &frozen).await, Ready::Yes);
    scene.adapter.release(job.act_id, &frozen).await;
    assert_eq!(scene.world.released(), [job.act_id]);
}

#[tokio::test]
async fn it_fails_to_resolve_and_to_answer_as_told() {
    let scene = replayable();
    let job = scene.pay();
    scene.world.script_resolve(ResolveFault::Passing);
    scene.world.script_resolve(ResolveFault::Refused("PERM"));
    scene.world.script_resolve(ResolveFault::WrongValue(
        "acct".to_owned(),
        "40-12-88/61102983".to_owned(),
    ));
    assert!(matches!(
        scene.adapter.resolve(&job).await,
        Err(ResolveError::Passing(_))
    ));
    assert!(matches!(
        scene.adapter.resolve(&job).await,
        Err(ResolveError::Refused { why: "PERM", .. })
    ));
    assert_eq!(scene.prepare(&job).await.value("acct"), Some("40-12-88/61102983"));

    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;
    scene.world.script_lookup(LookupFault::NoAnswer);
    scene.world.script_lookup(LookupFault::NotFound);
    assert!(matches!(
        scene.adapter.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Unknown(_)
    ));
    assert!(matches!(
        scene.adapter.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Absent(_)
    ));
    assert!(matches!(
        scene.adapter.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Executed(_)
    ));

    scene.world.set_down(true);
    assert!(scene.adapter.health().await.is_err());
    assert!(matches!(
        scene.adapter.resolve(&job).await,
        Err(ResolveError::Passing(_))
    ));
    assert!(matches!(
        scene.adapter.ready(job.act_id, &frozen).await,
        Ready::Unknown(_)
    ));
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    scene.world.set_down(false);
    assert_eq!(scene.adapter.health().await, Ok(()));
}

/// The same seed and the same acts meet the same faults, in whatever order they come.
#[tokio::test]
async fn a_seed_replays_a_whole_bad_night() {
    async fn night(seed: u64, backwards: bool) -> Vec<(String, usize)> {
        let mut config = config(SimGuarantee::Replayable);
        config.seed = seed;
        config.odds = Fault::WORDS.iter().map(|w| ((*w).to_owned(), 60)).collect();
        let scene = Scene::new(config);
        let mut jobs: Vec<_> = (0..200_u64)
            .map(|n| {
                let mut job = scene.pay();
                let mut random = [7; 10];
                random[2..].copy_from_slice(&n.to_be_bytes());
                job.act_id = wilco_core::ActId::new(job.now, random);
                job
            })
            .collect();
        if backwards {
            jobs.reverse();
        }
        for job in &jobs {
            let frozen = scene.prepare(job).await;
            scene.execute(job, &frozen).await;
        }
        scene.pass(60);
        assert_eq!(scene.world.balances_sum(), 0);
        let orders = scene.world.orders();
        assert!(orders.iter().all(|o| o.standing != SimStanding::Unfinished));
        jobs.sort_by_key(|job| job.act_id);
        jobs.iter()
            .map(|j| (j.act_id.to_string(), scene.world.effects_of(j.act_id)))
            .collect()
    }
    let one = night(41, false).await;
    assert_eq!(one, night(41, true).await);
    assert_ne!(one, night(42, false).await);
    assert!(one.iter().any(|(_, n)| *n == 0) && one.iter().any(|(_, n)| *n == 1));
    assert!(one.iter().all(|(_, n)| *n <= 1), "never twice");
}

#[test]
fn a_wrong_table_is_refused_by_field() {
    let adapter = |text: &str| {
        let config = SimConfig::from_toml(text).map_err(|e| e.to_string())?;
        let clock = Scene::new(SimConfig::default()).clock;
        SimAdapter::new(&config, clock)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(adapter(""), Ok(()));
    assert_eq!(
        adapter("seed = 7\nguarantee = \"verifiable\"\nodds = { lost-after = 50 }"),
        Ok(())
    );
    for (text, said) in [
        ("colour = 1", "unknown field `colour`"),
        ("guarantee = \"best\"", "best"),
        ("delay_ms = 60001", "delay_ms"),
        ("concurrency = 0", "concurrency"),
        ("settle_window_s = 90000", "settle_window_s"),
        ("odds = { fire = 1 }", "not-connected"),
        ("odds = { reject = 900, late = 101 }", "1000"),
        ("guarantee = \"blind\"\nkey_window_s = 5", "key_window_s"),
        ("evidence_only = true", "evidence_only"),
        ("serves = []", "serves"),
        ("accounts = { marlow = \"a b\" }", "accounts"),
        ("debtor_account = \"\"", "debtor_account"),
        ("name = \"\"", "name"),
    ] {
        let error = adapter(text).expect_err(text);
        assert!(
            error.contains("[adapters.sim]") && error.contains(said),
            "{text}: {error}"
        );
    }
}
