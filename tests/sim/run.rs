//! One run: a seed's worth of senders, chaos and people, then quiet, then the reckoning.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adapter_sim::SimWorld;
use futures::FutureExt;
use wilco_store::MemoryKeeper;

use crate::chance::{Chance, Shared};
use crate::chaos;
use crate::clock::{SteppedClock, TrueClock};
use crate::daemons::{Daemons, Sim};
use crate::ending;
use crate::judge::{Broken, Judge, Tally};
use crate::line::Weather;
use crate::log::Log;
use crate::perils::Perils;
use crate::plan::Plan;
use crate::senders::Sender;
use crate::store::Store;

/// What came of a run.
pub struct Ran {
    pub plan: Plan,
    pub acts: usize,
    pub tally: Tally,
    /// The hash over the event log: the same for every run of the seed.
    pub hash: String,
    pub text: String,
    pub took: Duration,
    /// What was not kept, with the part of the log that tells of it.
    pub broken: Vec<(Broken, String)>,
}

/// Runs a plan in virtual time.
pub fn run(plan: Plan) -> Ran {
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|e| panic!("a runtime: {e}"));
    let sim = runtime.block_on(async { Arc::new(build(plan)) });
    let ended = runtime.block_on(AssertUnwindSafe(live(Arc::clone(&sim))).catch_unwind());
    if let Err(panic) = ended {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        sim.judge
            .broken(&[], format!("panic: {}", text.unwrap_or_default()));
    }
    let broken = sim.judge.all_broken();
    Ran {
        plan,
        acts: sim.judge.acts().len(),
        tally: sim.judge.tally(),
        hash: sim.log.hash(),
        text: sim.log.text(),
        took: began.elapsed(),
        broken: broken
            .into_iter()
            .map(|b| {
                let told = sim.log.about(&b.names, 60);
                (b, told)
            })
            .collect(),
    }
}

fn build(plan: Plan) -> Sim {
    let truth = TrueClock::begin();
    let clock = SteppedClock::new(truth);
    let log = Arc::new(Log::new(truth));
    let world = Arc::new(SimWorld::new(&plan.counterparty(), Arc::new(truth)));
    let judge = Arc::new(Judge::new(Arc::clone(&log), Arc::clone(&world)));
    let chance = Shared::new(Chance::of(plan.seed, "perils"));
    let perils = Arc::new(Perils::new(chance, Arc::clone(&judge), Arc::clone(&log)));
    let store = Store::new(
        MemoryKeeper::new(Arc::clone(&clock) as Arc<dyn wilco_core::Clock>),
        Arc::clone(&judge),
        Arc::clone(&log),
        Shared::new(Chance::of(plan.seed, "store")),
        Arc::clone(&perils),
        plan.mutant,
    );
    Sim {
        plan,
        world,
        clock,
        store: Arc::new(store),
        judge,
        weather: Arc::new(Weather::new(
            plan,
            truth,
            Shared::new(Chance::of(plan.seed, "weather")),
        )),
        perils,
        daemons: Daemons::default(),
        log,
    }
}

async fn live(sim: Arc<Sim>) {
    for seat in 0..sim.plan.daemons {
        sim.start(seat).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut people = tokio::task::JoinSet::new();
    for n in 0..sim.plan.threads {
        people.spawn(Sender::new(&sim, n, "scheduler").work());
        if n % 4 == 0 {
            // Two senders in one thread: their handoffs have the same numbers.
            people.spawn(Sender::new(&sim, n, "auditor").work());
        }
    }
    let chaos = tokio::spawn(chaos::chaos(Arc::clone(&sim), Arc::clone(&over)));
    let supervisor = tokio::spawn(chaos::supervisor(Arc::clone(&sim), Arc::clone(&over)));
    let duty = tokio::spawn(chaos::duty(Arc::clone(&sim), Arc::clone(&over)));
    let watching = tokio::spawn(ending::watch(Arc::clone(&sim), Arc::clone(&over)));
    let working = async {
        while let Some(ended) = people.join_next().await {
            if let Err(error) = ended {
                sim.judge.broken(&[], format!("a sender panicked: {error}"));
            }
        }
        over.store(true, Ordering::SeqCst);
        // What they have begun ends by itself: somebody thaws and restarts what was frozen or killed.
        for task in [chaos, supervisor, duty, watching] {
            if let Err(error) = task.await {
                sim.judge
                    .broken(&[], format!("a part of the run panicked: {error}"));
            }
        }
        tokio::time::sleep(Duration::from_secs(240)).await;
        ending::quiet(&sim).await;
        ending::reckon(&sim).await;
    };
    tokio::select! {
        biased;
        () = sim.judge.found_broken() => {}
        () = working => {}
    }
}
