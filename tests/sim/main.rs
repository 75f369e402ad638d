//! After: the promises, kept by real engines through thousands of acts in which everything goes wrong that may.
//!
//! Several daemons share one store and one counterparty. Senders hand over, confirm, cancel, replace and reverse;
//! messages are lost, doubled and overtaken; daemons are killed, frozen past every deadline and started again; writes
//! are lost or stand without anybody knowing; the counterparty answers late, never, or with something else; the clock is
//! stepped; people settle what is in doubt. A judge looks at every write and every answer and compares them with the
//! counterparty's own book.
//!
//! Time is virtual and chance comes from one number, so a seed is one run, byte for byte:
//!
//! ```sh
//! cargo test -p wilco-tests --test sim                                             # fixed seeds and a fresh one
//! WILCO_SIM_SEED=17 WILCO_SIM_THREADS=200 cargo test -p wilco-tests --test sim -- --nocapture   # that run again
//! ```
//!
//! `WILCO_SIM_FRESH=20` runs so many fresh seeds; `WILCO_SIM_LOG=FILE` keeps the event log of the run.
//!
//! `WILCO_SIM_FAR_FORWARD=1` sets the store's clock forward by more than a settle window: the time between two lookups is
//! read off that clock, so absence may then be concluded too early. It shows that limit and is not run by default.

mod chance;
mod chaos;
mod clock;
mod daemons;
mod ending;
mod gate;
mod judge;
mod line;
mod log;
mod mutants;
mod net;
mod perils;
mod plan;
mod purge;
mod run;
mod senders;
mod store;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mutants::Mutant;
use plan::Plan;
use run::{Ran, run};

/// How many threads a run has unless `WILCO_SIM_THREADS` says otherwise.
const THREADS: usize = 150;

/// Nothing panics while it holds one of these, but a broken run's end must still be told.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One seed for every kind of counterparty.
#[test]
fn fixed_seeds_keep_every_promise() {
    if let Some(seed) = number("WILCO_SIM_SEED") {
        return kept(seed, threads());
    }
    // Two at a time: a run is one thread.
    let seeds: Vec<u64> = (1..=7).collect();
    let (left, right) = seeds.split_at(4);
    let rest = |seeds: &[u64]| seeds.iter().for_each(|seed| kept(*seed, threads()));
    std::thread::scope(|s| {
        s.spawn(|| rest(left));
        rest(right);
    });
}

/// Seeds nobody has seen. The seed is printed before it runs.
#[test]
fn fresh_seeds_keep_every_promise() {
    if number("WILCO_SIM_SEED").is_some() {
        return;
    }
    for n in 0..number("WILCO_SIM_FRESH").unwrap_or(1) {
        let seed = RandomState::new().hash_one(n) % 1_000_000_000;
        println!(
            "fresh seed: WILCO_SIM_SEED={seed} WILCO_SIM_THREADS={}",
            threads()
        );
        kept(seed, threads());
    }
}

/// What makes a failing seed worth printing.
#[test]
fn one_seed_is_one_run() {
    if number("WILCO_SIM_SEED").is_some() {
        return;
    }
    let plan = Plan::new(10, 60);
    let (first, second) = (run(plan), run(plan));
    let differs = first.text.lines().zip(second.text.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differs, None,
        "the first line in which two runs of one seed differ"
    );
    assert_eq!(first.hash, second.hash);
}

/// A judge that never objects proves nothing.
#[test]
fn every_broken_rule_is_caught() {
    if number("WILCO_SIM_SEED").is_some() {
        return;
    }
    let survived: Vec<Mutant> = Mutant::ALL.into_iter().filter(|m| !is_caught(*m)).collect();
    assert_eq!(survived, [], "mutants that no seed caught");
}

/// How many seeds a mutant is given.
const MUTANT_SEEDS: u64 = 12;

/// How many threads a run with a broken rule has.
const MUTANT_THREADS: usize = 50;

fn is_caught(mutant: Mutant) -> bool {
    for seed in 1..=MUTANT_SEEDS {
        let ran = run(Plan::with(mutant, seed, MUTANT_THREADS));
        let Some((broken, told)) = ran.broken.first() else {
            continue;
        };
        let known = mutant.signs().iter().any(|sign| broken.text.contains(sign));
        assert!(
            known,
            "{mutant:?} was caught by something else: {}\n{told}",
            broken.text
        );
        println!("{mutant:?}: seed {seed}, {} acts: {}", ran.acts, broken.text);
        return true;
    }
    false
}

/// Runs a seed and fails with everything one needs to run it again.
fn kept(seed: u64, threads: usize) {
    let ran = run(Plan::new(seed, threads));
    if let Ok(path) = std::env::var("WILCO_SIM_LOG") {
        std::fs::write(path, &ran.text).unwrap_or_else(|e| panic!("the log: {e}"));
    }
    println!("{}", summary(&ran));
    if ran.broken.is_empty() {
        return;
    }
    let mut text = String::new();
    for (broken, told) in ran.broken.iter().take(3) {
        text.push_str(&format!("\nBROKEN: {}\n{told}\n", broken.text));
    }
    panic!(
        "{text}\n{}\nrun it again: WILCO_SIM_SEED={seed} WILCO_SIM_THREADS={threads} cargo test -p wilco-tests --test sim -- \
         --nocapture",
        summary(&ran)
    );
}

fn summary(ran: &Ran) -> String {
    format!(
        "seed {} ({:?}, {} daemons): {} acts in {:.1} s, {:?}, hash {}",
        ran.plan.seed,
        ran.plan.kind,
        ran.plan.daemons,
        ran.acts,
        ran.took.as_secs_f64(),
        ran.tally,
        &ran.hash[..16]
    )
}

fn threads() -> usize {
    number("WILCO_SIM_THREADS").map_or(THREADS, |n| usize::try_from(n).unwrap_or(THREADS))
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}
