//! What a campaign came to: kills, where they fell, and every promise that was broken.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A promise that was broken.
#[derive(Debug, Clone)]
pub enum Broken {
    /// The bank was made to act twice for one handoff.
    Double(String),
    /// An act, a payment or an answer has gone missing, or ended as what it is not.
    Lost(String),
    /// Anything else that must hold and did not.
    Other(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Double(what) => write!(f, "DOUBLE: {what}"),
            Broken::Lost(what) => write!(f, "LOST: {what}"),
            Broken::Other(what) => write!(f, "BROKEN: {what}"),
        }
    }
}

/// Shared by all houses.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    at: BTreeMap<String, u64>,
    acts: u64,
    paid: u64,
    states: BTreeMap<String, u64>,
    broken: Vec<(String, Broken)>,
}

impl Tally {
    /// A daemon died, at a named place or at some moment.
    pub fn killed(&self, at: &str) {
        let mut counts = self.counts();
        counts.kills += 1;
        *counts.at.entry(at.to_owned()).or_default() += 1;
    }

    /// What a house ended with.
    pub fn ended(&self, acts: usize, paid: usize) {
        let mut counts = self.counts();
        counts.acts += acts as u64;
        counts.paid += paid as u64;
    }

    /// An act ended in this state.
    pub fn state(&self, state: &str) {
        *self.counts().states.entry(state.to_lowercase()).or_default() += 1;
    }

    /// Something is broken; `house` says how to come back to it.
    pub fn broke(&self, house: &str, what: Broken) {
        eprintln!("{house}: {what}");
        self.counts().broken.push((house.to_owned(), what));
    }

    /// How often a daemon died at a place.
    pub fn kills_at(&self, point: &str) -> u64 {
        self.counts().at.get(point).copied().unwrap_or(0)
    }

    /// Shows everything. The last line is the verdict; true if nothing is broken.
    pub fn tell(&self) -> bool {
        let counts = self.counts();
        for (at, n) in &counts.at {
            println!("{n:6}  {at}");
        }
        let states: Vec<String> = counts
            .states
            .iter()
            .map(|(state, n)| format!("{n} {state}"))
            .collect();
        println!(
            "{} handoffs ({}), {} payments in the banks' books",
            counts.acts,
            states.join(", "),
            counts.paid
        );
        for (house, what) in &counts.broken {
            println!("{house}: {what}");
        }
        let of = |which: fn(&Broken) -> bool| counts.broken.iter().filter(|(_, b)| which(b)).count();
        let double = of(|b| matches!(b, Broken::Double(_)));
        let lost = of(|b| matches!(b, Broken::Lost(_)));
        println!("{} kills, {double} double, {lost} lost", counts.kills);
        counts.broken.is_empty()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
