//! The worst moments: a process frozen or killed exactly where it matters, between a claim and its first byte, between
//! the counterparty's answer and the write of it, between a COMMIT and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::chance::Shared;
use crate::gate::{Gate, Motion};
use crate::judge::Judge;
use crate::log::Log;

/// What lies in wait, for all processes of a run.
pub struct Perils {
    chance: Shared,
    judge: Arc<Judge>,
    log: Arc<Log>,
    calm: AtomicBool,
}

impl Perils {
    pub fn new(chance: Shared, judge: Arc<Judge>, log: Arc<Log>) -> Perils {
        Perils {
            chance,
            judge,
            log,
            calm: AtomicBool::new(false),
        }
    }

    /// From now on nothing strikes.
    pub fn set_calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// A process comes to such a moment: in so many of a thousand cases something strikes. Whoever struck it passes its
    /// gate next, and stands there.
    pub fn meet(&self, process: &str, gate: &Arc<Gate>, moment: &str, thousandths: u64) {
        if self.calm.load(Ordering::SeqCst) || gate.motion() != Motion::Running {
            return;
        }
        let (strikes, kills, for_ms) = self.chance.draw(|c| {
            (
                c.thousandths(thousandths),
                c.thousandths(300),
                c.between(1_000, 400_000),
            )
        });
        if !strikes {
            return;
        }
        if kills {
            self.log.say(&format!("{process} killed {moment}"));
            gate.set(Motion::Dead);
            self.judge.died(process);
            return;
        }
        self.log
            .say(&format!("{process} frozen {moment} for {for_ms} ms"));
        gate.set(Motion::Frozen);
        let gate = Arc::clone(gate);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(for_ms)).await;
            gate.set(Motion::Running);
        });
    }
}
