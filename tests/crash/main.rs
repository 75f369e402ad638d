//! Killed for real: the daemon's own binary dies by SIGKILL, at named places and at moments nobody chose, while stubborn
//! callers hand off, confirm, cancel and ask again; and the bank's book, kept by another process, is the judge.
//!
//! ```sh
//! cargo xtask crash --kills 1000 --seed 17
//! ```
//!
//! A campaign is a row of houses, a few at a time: each has a bank, a data folder and callers of its own, and its daemon
//! dies a dozen times. Then the house is left in peace until nothing is open any more, and judged ([`judge`]):
//!
//! - at most one payment for each handoff, and exactly one where the daemon says done;
//! - no payment that nobody answers for, no act without a state, no answer ever taken back;
//! - every thread passes the protocol's own check, and the counts add up.
//!
//! Some houses keep their acts in PostgreSQL; there a second daemon serves the same callers, sees the first one die, and goes
//! on with what it left.
//!
//! The seed gives the plan: who does what, where the daemon dies. What the machine's scheduler makes of it is its own.
//! The last line is `N kills, D double, L lost`; anything broken, or a place at which nobody died, fails the run.

mod chance;
mod desk;
mod house;
mod judge;
mod plan;
mod play;
mod tally;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::task::LocalSet;

use plan::Plan;
use tally::{Broken, Tally};

/// How many houses live at once: while one daemon starts or waits for a window to pass, others work.
const AT_ONCE: usize = 6;

/// From so many kills on, every place must have had one.
const ENOUGH_FOR_ALL: u64 = 100;

/// How often places that chance passed by are tried again.
const TOP_UPS: u64 = 3;

/// The houses of such tries have streams of chance of their own.
const TOP_UP_PART: u64 = 1 << 32;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match asked(&args) {
        Ok((kills, seed)) if campaign(kills, seed) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}\nusage: wilco-crash [--kills N] [--seed S]");
            ExitCode::from(2)
        }
    }
}

fn asked(args: &[String]) -> Result<(u64, u64), String> {
    let (mut kills, mut seed) = (100, RandomState::new().hash_one("crash") % 1_000_000);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} takes a number"))?;
        let number: u64 = value
            .parse()
            .map_err(|_| format!("{word} takes a number, not {value}"))?;
        match word.as_str() {
            "--kills" if number > 0 => kills = number,
            "--seed" => seed = number,
            _ => {
                return Err(format!(
                    "crash knows --kills N (at least 1) and --seed S, not {word} {value}"
                ));
            }
        }
    }
    Ok((kills, seed))
}

/// True if nothing is broken.
fn campaign(kills: u64, seed: u64) -> bool {
    let postgres = wilco_tests::postgres::server();
    let stores = match &postgres {
        Ok(_) => "SQLite and PostgreSQL",
        Err(_) => "SQLite alone: WILCO_TEST_POSTGRES names no server",
    };
    println!("crash: {kills} kills, seed {seed}, {stores}");
    let begun = Instant::now();
    let tally = Tally::default();
    let waiting: Mutex<VecDeque<_>> = Mutex::new(
        plan::plans(kills, seed, postgres.is_ok())
            .into_iter()
            .enumerate()
            .collect(),
    );
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some((number, plan)) = next() {
                    let name = format!("seed {seed}, house {number}");
                    house(&name, seed, number as u64, plan, &tally);
                }
            });
        }
    });
    if kills >= ENOUGH_FOR_ALL {
        for again in 0..TOP_UPS {
            let missed = missed(&tally);
            if missed.is_empty() {
                break;
            }
            let name = format!("seed {seed}, top-up {again}");
            house(&name, seed, TOP_UP_PART + again, plan::top_up(&missed), &tally);
        }
        for point in missed(&tally) {
            let what = format!("no daemon died at {point}: what happens there was not tried");
            tally.broke(&format!("seed {seed}"), Broken::Other(what));
        }
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    tally.tell()
}

/// Places at which nobody died so far.
fn missed(tally: &Tally) -> Vec<&'static str> {
    let mut points = wilco_failpoint::POINTS.to_vec();
    points.retain(|point| tally.kills_at(point) == 0 && !plan::NEIGHBOUR_ONLY.contains(point));
    points
}

/// Lives one house; whatever happens in it is told and touches no other.
fn house(name: &str, seed: u64, number: u64, plan: Plan, tally: &Tally) {
    let lived = catch_unwind(AssertUnwindSafe(|| live(name, seed, number, plan, tally)));
    if lived.is_err() {
        tally.broke(name, Broken::Other("the house came to a bad end".to_owned()));
    }
}

/// A house has a thread of its own, and so has each of its callers a place in it.
fn live(name: &str, seed: u64, number: u64, plan: Plan, tally: &Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap_or_else(|e| panic!("no runtime can be had: {e}"));
    let callers = LocalSet::new();
    callers.block_on(&runtime, house::live(name, seed, number, plan, tally));
}
