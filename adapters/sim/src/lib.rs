//! The seeded adapter: it moves nothing real.
//!
//! For simulation, tests and benches: an in-process counterparty with its own book ([`SimWorld`]), a contract by
//! configuration (replayable, verifiable or blind), and faults by script or by seeded chance. It reads no clock but the
//! one it is given and sleeps only if told to. README.md has a table of the faults.
//!
//! `config` is what operators write, `wire` the order's bytes (pure), `client` the line with its faults, `world` the
//! counterparty. What never lives here: anything that reaches beyond this process.

mod client;
mod config;
mod fault;
mod wire;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, Report, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

pub use client::{NoPause, Pause, RealPause};
pub use config::{ConfigError, SimConfig, SimGuarantee, SimServes};
pub use fault::{Fault, LookupFault, ResolveFault};
pub use world::{SimOrder, SimStanding, SimWorld};

use client::{Client, Heard};
use wire::Body;

/// The adapter to a simulated counterparty.
pub struct SimAdapter {
    config: SimConfig,
    client: Client,
}

impl SimAdapter {
    /// The adapter to a new counterparty with an empty book, passing time for real where a delay is configured.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field and its rule.
    pub fn new(config: &SimConfig, clock: Arc<dyn Clock>) -> Result<SimAdapter, ConfigError> {
        let world = Arc::new(SimWorld::new(config, clock));
        tracing::warn!(
            name = config.name,
            "THE SIMULATOR IS CONFIGURED: its acts move nothing real"
        );
        SimAdapter::with_world(config, world, Arc::new(RealPause))
    }

    /// The adapter to a counterparty that is there already: after a restart, or beside another daemon.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field and its rule.
    pub fn with_world(
        config: &SimConfig,
        world: Arc<SimWorld>,
        pause: Arc<dyn Pause>,
    ) -> Result<SimAdapter, ConfigError> {
        let odds = config.checked()?;
        Ok(SimAdapter {
            client: Client {
                world,
                pause,
                odds,
                delay_us: i64::from(config.delay_ms) * 1_000,
            },
            config: config.clone(),
        })
    }

    /// The counterparty: its book is the judge, its knobs make it fail.
    #[must_use]
    pub fn world(&self) -> &Arc<SimWorld> {
        &self.client.world
    }

    fn contract(&self, ask: &str) -> Contract {
        let (identity, lookup) = match self.config.guarantee {
            SimGuarantee::Replayable => {
                let identity = self
                    .config
                    .key_window_s
                    .map_or(Identity::Enforced, Identity::Window);
                (identity, LookupBy::Reference)
            }
            SimGuarantee::Verifiable => (Identity::None, LookupBy::Reference),
            SimGuarantee::Blind if self.config.evidence_only => (Identity::None, LookupBy::Evidence),
            SimGuarantee::Blind => (Identity::None, LookupBy::None),
        };
        let serves_undo = self.config.serves.iter().any(|s| s.ask == "UNDO");
        Contract {
            identity,
            lookup,
            settle_window_s: self.config.settle_window_s,
            late_send: self
                .config
                .refused_after_s
                .map_or(LateSend::Accepted, LateSend::RefusedAfter),
            reversal: if serves_undo && ask != "UNDO" {
                Reversal::NewAct
            } else {
                Reversal::None
            },
            reversal_until_s: None,
            cut_off: String::new(),
            point_of_no_return: "the simulated sending: what fails before it was not sent".to_owned(),
            not_found_means: "nothing by itself: an order may be on its way for settle_window_s".to_owned(),
        }
    }

    fn carried(&self, profile: &str, ask: &str) -> Option<&[String]> {
        let served = self
            .config
            .serves
            .iter()
            .find(|s| s.profile == profile && s.ask == ask);
        served.map(|s| s.carried.as_slice())
    }

    fn values(&self, job: &Job) -> Result<Vec<FrozenValue>, ResolveError> {
        let taken = |value: &str| (value.to_owned(), Source::Handoff, "the handoff".to_owned());
        let looked_up = |value: String, evidence: &str| (value, Source::Resolved, evidence.to_owned());
        let sup = job.slot("sup").unwrap_or_default();
        let one = |slot: &String| {
            let from_handoff = || job.slot(slot).map(taken);
            let found = match (job.ask.as_str(), slot.as_str()) {
                ("UNDO", _) => {
                    let undone = job.undo.as_ref();
                    let executed = undone.and_then(|u| wire::value(&u.executed, slot));
                    executed
                        .map(|v| looked_up(v.to_owned(), "the act to reverse, as it was executed"))
                        .or_else(from_handoff)
                }
                ("CHGBANK", "prev") => self
                    .world()
                    .on_file(sup)
                    .map(|v| looked_up(v, "the account on file")),
                ("PAY", "acct") => self
                    .world()
                    .on_file(sup)
                    .map(|v| looked_up(v, "the simulator's payee register"))
                    .or_else(from_handoff),
                _ => from_handoff(),
            };
            let (value, source, evidence) = found.ok_or_else(|| ResolveError::Refused {
                why: "NOCTX",
                text: format!("slot {slot}: neither the handoff nor the simulator has it"),
            })?;
            Ok(FrozenValue {
                slot: slot.clone(),
                value,
                source,
                evidence,
            })
        };
        job.exec.iter().map(one).collect()
    }

    /// What the counterparty shows of an order: every value but those it plays not to know.
    fn report(&self, order: &SimOrder) -> Report {
        let carried = self.carried(&order.profile, &order.ask).unwrap_or_default();
        let seen = order.values.iter().filter(|(slot, _)| !carried.contains(slot));
        Report {
            values: seen.cloned().collect(),
            receipt: Some(order.receipt.clone()),
            provisional: false,
            status: match order.standing {
                SimStanding::Done => "done",
                SimStanding::Unfinished => "unfinished",
                SimStanding::Rejected(_) => "rejected",
            }
            .to_owned(),
        }
    }
}

#[async_trait]
impl Adapter for SimAdapter {
    fn describe(&self) -> Description {
        let served = |s: &SimServes| Served {
            profile: s.profile.clone(),
            ask: s.ask.clone(),
            carried: s.carried.clone(),
            contract: self.contract(&s.ask),
        };
        Description {
            name: self.config.name.clone(),
            counterparty: "THE SIMULATOR (moves nothing real)".to_owned(),
            serves: self.config.serves.iter().map(served).collect(),
            concurrency: self.config.concurrency,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        self.client.travel().await;
        let refused = |why, text: String| Err(ResolveError::Refused { why, text });
        if self.world().is_down() {
            return Err(ResolveError::Passing(
                "the simulated counterparty is down".to_owned(),
            ));
        }
        if self.carried(&job.profile, &job.ask).is_none() {
            return refused(
                "NOCAP",
                format!("the simulator is not configured for {}/{}", job.profile, job.ask),
            );
        }
        if job.ask == "UNDO" && job.undo.is_none() {
            return refused("NOCTX", "there is no act to reverse".to_owned());
        }
        let mut values = self.values(job)?;
        match self.world().resolve_fault() {
            None => {}
            Some(ResolveFault::Passing) => {
                return Err(ResolveError::Passing(
                    "the simulated counterparty does not answer".to_owned(),
                ));
            }
            Some(ResolveFault::Refused(why)) => {
                return refused(why, "the simulator was told to refuse".to_owned());
            }
            Some(ResolveFault::WrongValue(slot, wrong)) => {
                for value in values.iter_mut().filter(|v| v.slot == slot) {
                    value.value.clone_from(&wrong);
                    value.source = Source::Resolved;
                    value.evidence = "the simulator's register, with a fault".to_owned();
                }
            }
        }
        let body = Body {
            reference: job.act_id,
            profile: job.profile.clone(),
            ask: job.ask.clone(),
            issued: job.now,
            values: values.iter().map(|v| (v.slot.clone(), v.value.clone())).collect(),
            reverses: job.undo.as_ref().map(|u| u.act_id),
        };
        let awaiting = self.world().approval(job.act_id) != Some(true);
        let mut extra = Vec::new();
        if matches!(job.ask.as_str(), "PAY" | "UNDO") {
            extra.push(("x_dbtr".to_owned(), self.config.debtor_account.clone()));
        }
        extra.push(("x_sim".to_owned(), "Y".to_owned()));
        Ok(Resolved {
            values,
            extra,
            request: Request {
                method: "SIM".to_owned(),
                path: "/orders".to_owned(),
                body: body.write(),
                key: format!("{}-{}", job.act_id, job.attempt),
            },
            placed: None,
            cut_off: None,
            authorise_at: awaiting.then(|| format!("sim:authorise:{}", job.act_id)),
            notes: vec!["simulated: moves nothing real".to_owned()],
        })
    }

    async fn ready(&self, act: ActId, frozen: &Frozen) -> Ready {
        if self.world().is_down() {
            return Ready::Unknown("the simulated counterparty is down".to_owned());
        }
        match self.world().approval(act) {
            Some(true) => Ready::Yes,
            Some(false) => Ready::Refused {
                text: "the account holder refused".to_owned(),
            },
            None => Ready::Awaiting {
                link: frozen.authorise_at.clone(),
                text: "the account holder must authorise it".to_owned(),
            },
        }
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        match self
            .client
            .send(&permit, &frozen.request.key, &frozen.request.body)
            .await
        {
            Heard::NotSent(text) => Outcome::NotSent(text),
            Heard::Nothing(text) => Outcome::Unknown(text.to_owned()),
            Heard::Answer(order) => match &order.standing {
                SimStanding::Done => Outcome::Executed(self.report(&order)),
                SimStanding::Unfinished => Outcome::Accepted(self.report(&order)),
                SimStanding::Rejected(text) => Outcome::Rejected(text.clone()),
            },
        }
    }

    async fn lookup(
        &self,
        act: ActId,
        _frozen: &Frozen,
        _first_sent_at: Timestamp,
        _receipt: Option<&str>,
    ) -> Found {
        self.client.travel().await;
        if self.config.guarantee == SimGuarantee::Blind && !self.config.evidence_only {
            return Found::Unknown("a blind counterparty cannot be asked".to_owned());
        }
        match self.world().look(act) {
            Err(text) => Found::Unknown(text.to_owned()),
            Ok(None) => Found::Absent(format!("no order with the reference {act}")),
            Ok(Some(order)) => match &order.standing {
                SimStanding::Done => Found::Executed(self.report(&order)),
                SimStanding::Unfinished => Found::Accepted(self.report(&order)),
                SimStanding::Rejected(text) => Found::Rejected(text.clone()),
            },
        }
    }

    async fn release(&self, act: ActId, _frozen: &Frozen) {
        self.world().release(act);
    }

    async fn health(&self) -> Result<(), String> {
        if self.world().is_down() {
            return Err("the simulated counterparty is down".to_owned());
        }
        Ok(())
    }
}
