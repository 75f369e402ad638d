//! What every test of the simulator needs: a clock that stands still, a job, and the permit of a claimed act.

use std::sync::Arc;

use adapter_sim::{NoPause, Pause, SimAdapter, SimConfig, SimWorld};
use wilco_adapter::kit::{self, Still};
use wilco_adapter::{Adapter, Job, Outcome};
use wilco_core::{Clock, Frozen, Timestamp};

pub use wilco_adapter::kit::permit;

/// A pause moves the clock, so that nobody waits for real.
pub struct Moves(pub Arc<Still>);

#[async_trait::async_trait]
impl Pause for Moves {
    async fn pause(&self, micros: i64) {
        self.0.pass_micros(micros);
    }
}

pub struct Scene {
    pub clock: Arc<Still>,
    pub world: Arc<SimWorld>,
    pub adapter: SimAdapter,
    pub config: SimConfig,
}

impl Scene {
    pub fn new(config: SimConfig) -> Scene {
        let clock = Still::at(Timestamp::from_rw1("20261002T0900Z").unwrap_or_default());
        let world = Arc::new(SimWorld::new(&config, clock.clone()));
        let adapter = SimAdapter::with_world(&config, world.clone(), Arc::new(NoPause));
        let adapter = adapter.unwrap_or_else(|e| panic!("{e}"));
        Scene {
            clock,
            world,
            adapter,
            config,
        }
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.pass(seconds);
    }

    /// The marlow payment as a job of its own.
    pub fn pay(&self) -> Job {
        let slots = [
            ("sup", "marlow"),
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("kind", "GROSS"),
            ("acct", "40-12-88/61102938"),
            ("paid", "20261002"),
            ("ref", "MD-2026-057"),
            ("apref", "FD-0929"),
        ];
        self.job(
            "PAY",
            &slots,
            &["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"],
        )
    }

    pub fn job(&self, ask: &str, slots: &[(&str, &str)], exec: &[&str]) -> Job {
        kit::job(self.clock.now(), "pay", ask, "inv:MD-2026-057", slots, exec)
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        let resolved = self.adapter.resolve(job).await.unwrap_or_else(|e| panic!("{e}"));
        kit::frozen_of(job, resolved, &self.adapter.describe())
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        let permit = permit(job, frozen, self.clock.clone());
        self.adapter.execute(permit, frozen).await
    }
}
