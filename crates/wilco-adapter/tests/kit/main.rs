//! After: the kit itself. An honest adapter passes everything that its counterparty lets be tried, and each broken one is
//! caught by a case whose name says what is wrong with it.

mod adapter;
mod check;
mod proxy;
mod till;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter::{Lie, TillAdapter};
use async_trait::async_trait;
use till::{Rules, Till};
use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Finding, Findings, Still};
use wilco_adapter::{Adapter, Job};
use wilco_core::{ActId, Clock, Frozen, Timestamp};

const ENFORCES: Rules = Rules {
    enforces: true,
    manners: false,
};

struct TillBench {
    till: Arc<Till>,
    proxy: FaultProxy,
    rules: Rules,
    lie: Lie,
    clock: Arc<Still>,
    refuses_in_the_end: AtomicBool,
}

impl TillBench {
    async fn open(rules: Rules, lie: Lie) -> TillBench {
        let till = Till::open(rules).await;
        TillBench {
            proxy: FaultProxy::to(till.addr).await.expect("a port"),
            till,
            rules,
            lie,
            clock: Still::at(Timestamp::from_rw1("20261002T0900Z").expect("a time")),
            refuses_in_the_end: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Bench for TillBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let addr = self.proxy.addr();
        Arc::new(TillAdapter::new(addr, self.rules, self.lie, self.clock.clone()))
    }

    fn clock(&self) -> Arc<Still> {
        self.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        let amt = format!("{}.00", 100 + n);
        let slots = [("amt", amt.as_str()), ("acct", "40")];
        kit::job(self.clock.now(), "pay", "PAY", "inv:1", &slots, &["amt", "acct"])
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        let entries = self
            .till
            .entries()
            .into_iter()
            .filter(|e| e.reference == act.to_string());
        entries
            .map(|e| Effect {
                values: vec![("amt".to_owned(), e.amt), ("acct".to_owned(), e.acct)],
                receipt: Some(e.receipt),
                unfinished: e.unfinished,
            })
            .collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        Some(self.till.entries().len())
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.till
            .finish(self.refuses_in_the_end.swap(false, Ordering::SeqCst));
        self.clock.pass(1);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    async fn arm(&self, fault: Fault) -> bool {
        if fault == Fault::Late {
            return false;
        }
        self.refuses_in_the_end
            .store(fault == Fault::UnfinishedThenRefused, Ordering::SeqCst);
        self.till.arm(fault);
        true
    }

    fn patience(&self) -> Duration {
        // One of them makes every case wait for it.
        Duration::from_secs(if self.lie == Lie::WaitsForEver { 3 } else { 20 })
    }
}

async fn tried(rules: Rules, lie: Lie) -> Findings {
    let findings = kit::run(&TillBench::open(rules, lie).await).await;
    println!("{lie:?}\n{findings}");
    findings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_adapter_passes_and_everything_is_tried() {
    for manners in [false, true] {
        let findings = tried(
            Rules {
                enforces: true,
                manners,
            },
            Lie::None,
        )
        .await;
        findings.assert_sound();
        let mut left_out = Vec::new();
        for case in &findings.cases {
            if matches!(case.finding, Finding::NotApplicable(_)) {
                left_out.push(case.name.as_str());
            }
        }
        let mut expected = vec!["it acts after the adapter gave up"];
        if !manners {
            expected.insert(0, "too late at the last moment: not sent");
        }
        assert_eq!(left_out, expected, "with manners: {manners}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_contract_does_not_promise_is_not_tried() {
    let findings = tried(Rules::default(), Lie::None).await;
    findings.assert_sound();
    for name in [
        "the same bytes again: no second effect",
        "the request arrives twice",
        "sent again after the line broke: one effect",
        "it gets the request twice",
    ] {
        let finding = findings.finding(name);
        assert!(
            matches!(finding, Some(Finding::NotApplicable(why)) if why.contains("identity = none")),
            "{name}: {finding:?}"
        );
    }
}

/// Every lie with a case that must catch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_adapter_is_caught_by_a_case_that_names_its_fault() {
    let with_manners = Rules {
        enforces: true,
        manners: true,
    };
    let lies: &[(Rules, Lie, &[&str])] = &[
        (
            ENFORCES,
            Lie::SaysExecutedAlways,
            &["cut before the request", "it never gets the request"],
        ),
        (
            ENFORCES,
            Lie::Retries,
            &["cut before the request", "it never gets the request"],
        ),
        (
            Rules::default(),
            Lie::Retries,
            &["cut before the reply", "it acts and does not answer"],
        ),
        (
            ENFORCES,
            Lie::EchoesThePlan,
            &["it does something else: reported as done, not as meant"],
        ),
        (
            ENFORCES,
            Lie::CallsTimeoutsRejected,
            &["the reply comes too late", "it acts and answers too late"],
        ),
        (
            ENFORCES,
            Lie::CallsLostConnectionsNotSent,
            &["cut before the reply", "it acts and does not answer"],
        ),
        (
            ENFORCES,
            Lie::SaysAbsentOnErrors,
            &["a lookup that breaks never denies what is there"],
        ),
        (ENFORCES, Lie::IgnoresThePermit, &["too late: not sent"]),
        (
            with_manners,
            Lie::AsksThePermitFirst,
            &["too late at the last moment: not sent"],
        ),
        (
            ENFORCES,
            Lie::TakesAnythingForDone,
            &[
                "a reply that cannot be read: unknown",
                "it acts and answers garbage: unknown",
            ],
        ),
        (
            ENFORCES,
            Lie::SendsWhenLookingUp,
            &["looked up before it was sent: not found"],
        ),
        (
            ENFORCES,
            Lie::LooksByOrderingAgain,
            &[
                "looked up before it was sent: not found",
                "cut before the request",
            ],
        ),
        (
            ENFORCES,
            Lie::ReadsOnce,
            &["a reply in small pieces: understood all the same"],
        ),
        (
            ENFORCES,
            Lie::UnwrapsWhatComes,
            &["a reply that cannot be read: unknown"],
        ),
        (
            ENFORCES,
            Lie::DeniesWhatIsOld,
            &["looked up days later: nothing happens again"],
        ),
        (
            ENFORCES,
            Lie::SendsWhenResolving,
            &["resolve moves nothing and names every slot"],
        ),
        (
            ENFORCES,
            Lie::IsAlwaysHealthy,
            &["it is down: not sent, health says so, and it comes back by itself"],
        ),
        (
            ENFORCES,
            Lie::UndoesOnRelease,
            &["released after it was executed: it stands"],
        ),
        (
            ENFORCES,
            Lie::HasOnePlaceForTheAct,
            &["several at once do not mix"],
        ),
        (
            ENFORCES,
            Lie::CallsTakenDone,
            &["it takes the act on and finishes later"],
        ),
        (ENFORCES, Lie::WaitsForEver, &["the reply comes too late"]),
        (
            ENFORCES,
            Lie::CallsDownRefused,
            &["it is down: not sent, health says so, and it comes back by itself"],
        ),
        (
            ENFORCES,
            Lie::CallsDownInDoubt,
            &["it is down: not sent, health says so, and it comes back by itself"],
        ),
        (
            Rules::default(),
            Lie::PromisesIdentity,
            &[
                "the same bytes again: no second effect",
                "sent by two daemons at once: one effect",
                "the request arrives twice",
            ],
        ),
        (ENFORCES, Lie::SaysNothingForOperators, &["describe is sane"]),
        (
            ENFORCES,
            Lie::LeavesOutASlot,
            &["it does something else: reported as done, not as meant"],
        ),
        (
            ENFORCES,
            Lie::ForgetsWhatItFinds,
            &["executed once, with exactly the frozen values"],
        ),
    ];
    let mut running = tokio::task::JoinSet::new();
    for &(rules, lie, caught_by) in lies {
        running.spawn(async move {
            let findings = tried(rules, lie).await;
            let failed: Vec<&str> = findings.failed().map(|c| c.name.as_str()).collect();
            for name in caught_by {
                assert!(
                    failed.contains(name),
                    "{lie:?} is to be caught by {name:?}:\n{findings}"
                );
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap_or_else(|e| panic!("{e}"));
    }
}
