//! What every test of the simulator needs: a clock that stands still, a job, and the permit of a claimed act.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use adapter_sim::{NoPause, Pause, SimAdapter, SimConfig, SimWorld};
use wilco_adapter::{Adapter, Job, Outcome, Permit};
use wilco_core::act::{Execution, Handoff, Progress};
use wilco_core::{Act, ActId, Claim, Clock, Durable, Frozen, Offer, Resolved, Stage, Timestamp};

/// Time that moves only when a test moves it.
pub struct Still(AtomicI64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A pause moves the clock, so that nobody waits for real.
pub struct Moves(pub Arc<Still>);

#[async_trait::async_trait]
impl Pause for Moves {
    async fn pause(&self, micros: i64) {
        self.0.0.fetch_add(micros, Ordering::SeqCst);
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
        let start = Timestamp::from_rw1("20261002T0900Z").map_or(0, |t| t.0);
        let clock = Arc::new(Still(AtomicI64::new(start)));
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
        self.clock.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
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
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut random = [0; 10];
        random[2..].copy_from_slice(&NEXT.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        Job {
            act_id: ActId::new(self.clock.now(), random),
            attempt: 1,
            profile: "pay".to_owned(),
            ask: ask.to_owned(),
            item: "inv:MD-2026-057".to_owned(),
            slots: slots
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            exec: exec.iter().map(|s| (*s).to_owned()).collect(),
            undo: None,
            now: self.clock.now(),
        }
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        let resolved = self.adapter.resolve(job).await.unwrap_or_else(|e| panic!("{e}"));
        freeze(&self.adapter, job, resolved)
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        let permit = permit(job, frozen, self.clock.clone());
        self.adapter.execute(permit, frozen).await
    }
}

fn freeze(adapter: &dyn Adapter, job: &Job, resolved: Resolved) -> Frozen {
    let description = adapter.describe();
    let served = description.serves.iter().find(|s| s.ask == job.ask);
    let served = served.unwrap_or_else(|| panic!("{} is served", job.ask));
    Frozen {
        adapter: description.name.clone(),
        values: resolved.values,
        extra: resolved.extra,
        carried: served.carried.clone(),
        request: resolved.request,
        placed: resolved.placed,
        authorise_at: resolved.authorise_at,
        profile_digest: String::new(),
        contract: served.contract.clone(),
        not_after: job.now.plus_seconds(3_600),
    }
}

/// A permit as a durable claim yields it.
pub fn permit(job: &Job, frozen: &Frozen, clock: Arc<dyn Clock>) -> Permit {
    let offer = Offer {
        attempt: 1,
        rb_id: "payer-101".to_owned(),
        statement: String::new(),
        statement_sha256: String::new(),
        expires_at: frozen.not_after,
        frozen: frozen.clone(),
        problems: Vec::new(),
        notes: Vec::new(),
    };
    let act = Act {
        act_id: job.act_id,
        version: 2,
        thread: "scheduler".to_owned(),
        handoff: Handoff::default(),
        principal: "scheduler".to_owned(),
        created_at: job.now,
        updated_at: job.now,
        seq: 2,
        head: String::new(),
        lines: 1,
        long_ids: false,
        attempt: 1,
        tokens: Vec::new(),
        limit: frozen.not_after,
        undo_of: None,
        likeness: None,
        waiting: Vec::new(),
        released_by: None,
        stage: Stage::Executing(Execution {
            offer,
            confirmation: String::new(),
            claim: Claim {
                owner: "test".to_owned(),
                epoch: 1,
                claimed_at: job.now,
                deadline: frozen.not_after,
                not_after: frozen.not_after,
            },
            progress: Progress::default(),
        }),
    };
    let durable = Durable::attest(std::slice::from_ref(&act));
    Permit::from_claim(&act, &durable, clock).unwrap_or_else(|| panic!("a claimed act yields a permit"))
}
