//! A daemon's line to the counterparty: the real adapter, behind its process's gate, with the faults of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_sim::{Fault, LookupFault, Pause, SimAdapter, SimWorld};
use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, ResolveError};
use wilco_core::{ActId, Clock, Frozen, Resolved, Timestamp};
use wilco_store::Keeper;

use crate::chance::{Chance, Shared};
use crate::clock::TrueClock;
use crate::daemons::Sim;
use crate::gate::Gate;
use crate::judge::Judge;
use crate::log::Log;
use crate::mutants::Mutant;
use crate::perils::Perils;
use crate::plan::{FORWARD_STEP_S, Plan, SETTLE_WINDOW_S};
use crate::store::Store;

/// How far the counterparty's reads lag behind its book at most, seconds.
const LAG_S: i64 = 6;

/// The faults of a run, the same for every daemon.
pub struct Weather {
    plan: Plan,
    truth: TrueClock,
    chance: Shared,
    calm: AtomicBool,
}

impl Weather {
    pub fn new(plan: Plan, truth: TrueClock, chance: Shared) -> Weather {
        Weather {
            plan,
            truth,
            chance,
            calm: AtomicBool::new(false),
        }
    }

    /// From now on nothing goes wrong.
    pub fn set_calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// What happens to the next sending, within what the counterparty's contract allows.
    fn sending(&self, pays: bool) -> Fault {
        if self.calm.load(Ordering::SeqCst) {
            return Fault::Fine;
        }
        self.chance.draw(|c| self.draw(c, pays))
    }

    fn draw(&self, c: &mut Chance, pays: bool) -> Fault {
        let window = i64::from(SETTLE_WINDOW_S);
        match self.plan.mutant {
            Some(Mutant::SendsTwice) if c.thousandths(100) => return Fault::Duplicate,
            Some(Mutant::LandsLate) if c.thousandths(100) => return Fault::Late(window * 4),
            _ => {}
        }
        let seconds =
            |c: &mut Chance, most: i64| i64::try_from(c.between(1, most.unsigned_abs())).unwrap_or(1);
        match c.between(0, 99) {
            0..=2 => Fault::NotConnected,
            3..=7 => Fault::LostBefore,
            8..=13 => Fault::LostAfter,
            // It lands, and shows to lookups, within the settle window, measured from when the sending ended, even if the
            // clock is stepped a little.
            14..=19 => Fault::Late(seconds(c, window - 1 - FORWARD_STEP_S - LAG_S)),
            20..=22 => Fault::Slow(seconds(c, 90)),
            // The process stands between the permit and the first byte.
            23..=26 => Fault::Stalled(seconds(c, 200)),
            27..=28 => Fault::Reject,
            29 => Fault::Garbage,
            30..=31 if self.plan.is_asked() => Fault::Hidden(1),
            32..=34 if self.plan.is_asked() => Fault::Unfinished(seconds(c, 120)),
            35 if self.plan.is_asked() => Fault::UnfinishedThenRejected(seconds(c, 120)),
            36 if self.plan.knows_keys() => Fault::Duplicate,
            37 if pays => Fault::WrongValue("ref".to_owned(), "OTHER-1".to_owned()),
            38 if pays => Fault::WrongValue("amt".to_owned(), "77.77".to_owned()),
            _ => Fault::Fine,
        }
    }

    fn lookup_fails(&self) -> bool {
        !self.calm.load(Ordering::SeqCst) && self.chance.draw(|c| c.thousandths(80))
    }

    fn looks_away(&self) -> bool {
        self.plan.mutant == Some(Mutant::LooksAway)
    }

    /// How far what a lookup sees lags behind the book, seconds.
    fn lag_s(&self) -> i64 {
        if self.calm.load(Ordering::SeqCst) || self.plan.mutant == Some(Mutant::LandsLate) {
            return 0;
        }
        self.chance.draw(|c| {
            if c.thousandths(300) {
                i64::try_from(c.between(1, LAG_S.unsigned_abs())).unwrap_or(1)
            } else {
                0
            }
        })
    }

    /// How long one way takes.
    fn way(&self) -> Duration {
        Duration::from_millis(self.chance.draw(|c| match c.between(0, 99) {
            0..=89 => c.between(1, 60),
            90..=97 => c.between(100, 2_000),
            _ => c.between(2_000, 9_000),
        }))
    }
}

/// Passes virtual time, as long as the process moves.
struct GatedPause {
    gate: Arc<Gate>,
    weather: Arc<Weather>,
}

#[async_trait]
impl Pause for GatedPause {
    async fn pause(&self, micros: i64) {
        // The adapter's configured travel is a millisecond; how long it really takes is the run's to say.
        let time = if micros <= 1_000 {
            self.weather.way()
        } else {
            Duration::from_micros(micros.unsigned_abs())
        };
        tokio::time::sleep(time).await;
        self.gate.pass().await;
    }
}

/// The adapter one process speaks through.
pub struct Line {
    adapter: SimAdapter,
    world: Arc<SimWorld>,
    weather: Arc<Weather>,
    gate: Arc<Gate>,
    process: String,
    perils: Arc<Perils>,
    judge: Arc<Judge>,
    store: Arc<Store>,
    log: Arc<Log>,
}

impl Line {
    pub fn new(sim: &Sim, process: &str, gate: &Arc<Gate>) -> Line {
        let pause = GatedPause {
            gate: Arc::clone(gate),
            weather: Arc::clone(&sim.weather),
        };
        let adapter =
            SimAdapter::with_world(&sim.plan.counterparty(), Arc::clone(&sim.world), Arc::new(pause));
        Line {
            adapter: adapter.unwrap_or_else(|e| panic!("{e}")),
            world: Arc::clone(&sim.world),
            weather: Arc::clone(&sim.weather),
            gate: Arc::clone(gate),
            process: process.to_owned(),
            perils: Arc::clone(&sim.perils),
            judge: Arc::clone(&sim.judge),
            store: Arc::clone(&sim.store),
            log: Arc::clone(&sim.log),
        }
    }
}

impl Line {
    /// Whether every order of the act landed too recently for a read that lags so far.
    fn is_unseen(&self, act: ActId, lag_s: i64) -> bool {
        let seen_until = self.weather.truth.now().plus_seconds(-lag_s);
        lag_s > 0
            && self
                .world
                .orders_of(act)
                .iter()
                .all(|order| order.landed_at > seen_until)
    }
}

#[async_trait]
impl Adapter for Line {
    fn describe(&self) -> Description {
        self.adapter.describe()
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        self.gate.pass().await;
        let resolved = self.adapter.resolve(job).await;
        self.gate.pass().await;
        resolved
    }

    async fn ready(&self, act: ActId, frozen: &Frozen) -> Ready {
        self.gate.pass().await;
        let ready = self.adapter.ready(act, frozen).await;
        self.gate.pass().await;
        ready
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        self.gate.pass().await;
        let act = permit.act_id();
        let fault = self.weather.sending(frozen.value("amt").is_some());
        self.log.say(&format!("{} sends {act}: {fault:?}", self.process));
        let too_late = self
            .judge
            .last_moment(act)
            .is_some_and(|last| self.store.kept.now() >= last);
        self.judge.call_begins(&self.process, act);
        self.world.script_of(act, fault);
        // The adapter's own pause comes next, and then the gate.
        self.perils.meet(&self.process, &self.gate, "before it sends", 60);
        let outcome = self.adapter.execute(permit, frozen).await;
        if too_late && !matches!(outcome, Outcome::NotSent(_)) {
            let text = format!("{} sent {act} past its last moment", self.process);
            self.judge.broken(&[act.to_string()], text);
        }
        self.perils
            .meet(&self.process, &self.gate, "with the answer in hand", 20);
        self.gate.pass().await;
        self.log
            .say(&format!("{} heard of {act}: {outcome:?}", self.process));
        self.judge.call_ends(&self.process, act);
        outcome
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        first_sent_at: Timestamp,
        receipt: Option<&str>,
    ) -> Found {
        self.gate.pass().await;
        if self.weather.lookup_fails() {
            self.world.script_lookup(LookupFault::NoAnswer);
        }
        let mut found = self.adapter.lookup(act, frozen, first_sent_at, receipt).await;
        let lag_s = self.weather.lag_s();
        let blind_to = |found: &Found| !matches!(found, Found::Unknown(_) | Found::Absent(_));
        if blind_to(&found) && (self.is_unseen(act, lag_s) || self.weather.looks_away()) {
            found = Found::Absent(format!("no order with the reference {act} yet"));
        }
        // What was seen may be old by the time it is heard.
        if self.weather.chance.draw(|c| c.thousandths(50)) {
            tokio::time::sleep(self.weather.way()).await;
        }
        self.perils.meet(&self.process, &self.gate, "after a lookup", 10);
        self.gate.pass().await;
        self.log
            .say(&format!("{} looked up {act}: {found:?}", self.process));
        found
    }

    async fn release(&self, act: ActId, frozen: &Frozen) {
        self.gate.pass().await;
        self.adapter.release(act, frozen).await;
    }

    async fn health(&self) -> Result<(), String> {
        self.adapter.health().await
    }
}
