//! After: the simulator and its adapter by the suite that every adapter is held to, once for each guarantee it can play.
//! There is no line to break between them; the world's own faults stand for it.

use std::sync::Arc;

use adapter_sim::{
    Fault as SimFault, LookupFault, NoPause, SimAdapter, SimConfig, SimGuarantee, SimServes, SimStanding,
};
use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Finding, Still};
use wilco_adapter::{Adapter, Job, Undone};
use wilco_core::{ActId, Clock, Frozen};

use crate::support::Scene;

/// What the simulator plays not to know.
const CARRIED: [&str; 3] = ["sup", "kind", "apref"];
const EXEC: [&str; 8] = ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"];

struct SimBench(Scene);

impl SimBench {
    fn new(change: impl FnOnce(&mut SimConfig)) -> SimBench {
        let serves = |ask: &str| SimServes {
            profile: "pay".to_owned(),
            ask: ask.to_owned(),
            carried: CARRIED.map(str::to_owned).to_vec(),
        };
        let mut config = SimConfig {
            accounts: [("marlow".to_owned(), "40-12-88/61102938".to_owned())].into(),
            serves: vec![serves("PAY"), serves("UNDO")],
            ..SimConfig::default()
        };
        change(&mut config);
        SimBench(Scene::new(config))
    }
}

#[async_trait::async_trait]
impl Bench for SimBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let adapter = SimAdapter::with_world(&self.0.config, self.0.world.clone(), Arc::new(NoPause));
        Arc::new(adapter.unwrap_or_else(|e| panic!("{e}")))
    }

    fn clock(&self) -> Arc<Still> {
        self.0.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        let mut job = self.0.pay();
        for (slot, value) in &mut job.slots {
            if slot == "amt" {
                *value = format!("{}.00", 100 + n);
            }
        }
        job
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        let orders = self.0.world.orders_of(act).into_iter();
        let effects = orders.filter(|o| !matches!(o.standing, SimStanding::Rejected(_)));
        effects
            .map(|o| Effect {
                values: o
                    .values
                    .iter()
                    .filter(|(s, _)| !CARRIED.contains(&s.as_str()))
                    .cloned()
                    .collect(),
                receipt: Some(o.receipt),
                unfinished: o.standing == SimStanding::Unfinished,
            })
            .collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        let orders = self.0.world.orders().into_iter();
        Some(
            orders
                .filter(|o| !matches!(o.standing, SimStanding::Rejected(_)))
                .count(),
        )
    }

    async fn settle(&self) {
        self.0.pass(i64::from(self.0.config.settle_window_s));
        assert_eq!(self.0.world.balances_sum(), 0, "double entry");
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        None
    }

    async fn arm(&self, fault: Fault) -> bool {
        let world = &self.0.world;
        world.script(match fault {
            Fault::Refuse => SimFault::Reject,
            Fault::LoseRequest => SimFault::LostBefore,
            Fault::LoseReply => SimFault::LostAfter,
            Fault::Garbage => SimFault::Garbage,
            Fault::Slow => SimFault::Slow(60),
            Fault::Late => SimFault::Late(2),
            Fault::Duplicate => SimFault::Duplicate,
            Fault::WrongValues => SimFault::WrongValue("amt".to_owned(), "1.00".to_owned()),
            Fault::Unfinished => SimFault::Unfinished(2),
            Fault::UnfinishedThenRefused => SimFault::UnfinishedThenRejected(2),
            Fault::Lag => {
                world.script_lookup(LookupFault::NotFound);
                SimFault::LostAfter
            }
        });
        true
    }

    async fn stop(&self) -> bool {
        self.0.world.set_down(true);
        true
    }

    async fn start(&self) {
        self.0.world.set_down(false);
    }

    async fn undo(&self, undone: Undone) -> Option<Job> {
        let mut job = kit::job(self.0.clock.now(), "pay", "UNDO", "inv:MD-2026-057", &[], &EXEC);
        job.undo = Some(undone);
        Some(job)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayable_one() {
    kit::run(&SimBench::new(|_| {})).await.assert_sound();
    kit::run(&SimBench::new(|c| c.key_window_s = Some(86_400)))
        .await
        .assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifiable_one_that_takes_nothing_back() {
    let bench = SimBench::new(|c| {
        c.guarantee = SimGuarantee::Verifiable;
        c.serves.truncate(1);
    });
    kit::run(&bench).await.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blind_one_with_and_without_an_archive() {
    let blind = |evidence_only| {
        SimBench::new(|c| {
            c.guarantee = SimGuarantee::Blind;
            c.evidence_only = evidence_only;
        })
    };
    kit::run(&blind(true)).await.assert_sound();
    kit::run(&blind(false)).await.assert_sound();
}

/// The suite can fail here too: a counterparty that does not keep what its adapter's contract promises is found out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_that_promises_too_much_is_found_out() {
    struct Promises(SimBench);
    #[async_trait::async_trait]
    impl Bench for Promises {
        async fn adapter(&self) -> Arc<dyn Adapter> {
            let mut config = self.0.0.config.clone();
            config.guarantee = SimGuarantee::Replayable;
            let adapter = SimAdapter::with_world(&config, self.0.0.world.clone(), Arc::new(NoPause));
            Arc::new(adapter.unwrap_or_else(|e| panic!("{e}")))
        }
        fn clock(&self) -> Arc<Still> {
            self.0.clock()
        }
        async fn job(&self, n: u32) -> Job {
            self.0.job(n).await
        }
        async fn effects(&self, act: ActId, frozen: &Frozen) -> Vec<Effect> {
            self.0.effects(act, frozen).await
        }
        async fn settle(&self) {
            self.0.settle().await;
        }
        fn proxy(&self) -> Option<&FaultProxy> {
            None
        }
    }
    let bench = Promises(SimBench::new(|c| c.guarantee = SimGuarantee::Verifiable));
    let findings = kit::run(&bench).await;
    let again = findings.finding("the same bytes again: no second effect");
    assert!(matches!(again, Some(Finding::Failed(_))), "{findings}");
}
