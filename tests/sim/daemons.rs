//! The daemons: real engines over one store and one counterparty, started, frozen, killed and started again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_sim::SimWorld;
use wilco_core::token::TokenKey;
use wilco_engine::{Engine, Parts};

use crate::chance::{Chance, Shared};
use crate::clock::SteppedClock;
use crate::gate::{Gate, Motion};
use crate::judge::Judge;
use crate::line::{Line, Weather};
use crate::locked;
use crate::log::Log;
use crate::perils::Perils;
use crate::plan::{DAEMONS, Plan};
use crate::store::Store;

/// What a run is made of.
pub struct Sim {
    pub plan: Plan,
    pub log: Arc<Log>,
    pub world: Arc<SimWorld>,
    pub clock: Arc<SteppedClock>,
    pub store: Arc<Store>,
    pub judge: Arc<Judge>,
    pub weather: Arc<Weather>,
    pub perils: Arc<Perils>,
    pub daemons: Daemons,
}

/// The daemons of a run.
#[derive(Default)]
pub struct Daemons {
    seats: Mutex<[Seat; DAEMONS]>,
    boots: Mutex<u32>,
}

/// A folder, as it were, and the one process that holds its lock.
#[derive(Default)]
enum Seat {
    #[default]
    Empty,
    Starting,
    Up(Process),
}

/// One running daemon.
#[derive(Clone)]
pub struct Process {
    pub name: String,
    pub gate: Arc<Gate>,
    pub engine: Arc<Engine>,
}

impl Sim {
    /// The process in a seat, if one runs there.
    pub fn process(&self, seat: usize) -> Option<Process> {
        match locked(&self.daemons.seats).get(seat)? {
            Seat::Up(process) => Some(process.clone()),
            Seat::Empty | Seat::Starting => None,
        }
    }

    /// Starts a daemon in a seat, if it is empty. While the store does not answer, it is tried again.
    pub async fn start(&self, seat: usize) {
        match locked(&self.daemons.seats).get_mut(seat) {
            Some(free @ Seat::Empty) => *free = Seat::Starting,
            _ => return,
        }
        let boot = {
            let mut boots = locked(&self.daemons.boots);
            *boots += 1;
            *boots
        };
        // One seat of several has no folder of its own: of its earlier runs nobody ever knows for sure that they are dead.
        let house = if seat == DAEMONS - 1 {
            String::new()
        } else {
            format!("house{seat}")
        };
        let name = format!("d{seat}#{boot}");
        let gate = Arc::new(Gate::new());
        loop {
            let line = Line::new(self, &name, &gate);
            let chance = Chance::of(self.plan.seed, &format!("{name} {}", self.log.passed_ms()));
            let parts = Parts {
                keeper: Arc::new(self.store.handle(&name, Arc::clone(&gate))),
                adapters: vec![Arc::new(line)],
                profiles: rw1::Profiles::builtin(),
                token_keys: vec![token_key()],
                chance: Arc::new(Shared::new(chance)),
                config: self.plan.config(&house),
            };
            match Engine::start(parts).await {
                Ok(engine) => {
                    self.log.say(&format!("{name} started"));
                    let process = Process { name, gate, engine };
                    if let Some(free) = locked(&self.daemons.seats).get_mut(seat) {
                        *free = Seat::Up(process);
                    }
                    return;
                }
                Err(error) => {
                    self.log.say(&format!("{name} did not start: {error}"));
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            }
        }
    }

    /// The seats whose process is dead although nobody has cleared it away yet.
    pub fn fallen(&self) -> Vec<usize> {
        (0..self.plan.daemons)
            .filter(|seat| {
                self.process(*seat)
                    .is_some_and(|p| p.gate.motion() == Motion::Dead)
            })
            .collect()
    }

    /// Kills the daemon in a seat.
    pub fn kill(&self, seat: usize) {
        if let Some(process) = self.process(seat) {
            if let Some(held) = locked(&self.daemons.seats).get_mut(seat) {
                *held = Seat::Empty;
            }
            self.log.say(&format!("{} killed", process.name));
            process.gate.set(Motion::Dead);
            self.judge.died(&process.name);
        }
    }

    /// Freezes the daemon in a seat and takes it for dead: its folder is free for another, and later it goes on.
    pub fn leave_behind(&self, seat: usize, for_time: Duration) {
        let Some(process) = self.process(seat) else { return };
        if let Some(held) = locked(&self.daemons.seats).get_mut(seat) {
            *held = Seat::Empty;
        }
        self.log.say(&format!("{} left behind", process.name));
        process.gate.set(Motion::Frozen);
        tokio::spawn(async move {
            tokio::time::sleep(for_time).await;
            process.gate.set(Motion::Running);
        });
    }

    /// Stops the daemon in a seat in good order, as far as it manages within the grace.
    pub async fn stop(&self, seat: usize, grace: Duration) {
        let Some(process) = self.process(seat) else { return };
        self.log.say(&format!("{} stops", process.name));
        let left = process.engine.drain(grace).await;
        self.log.say(&format!("{} stopped, {left} left", process.name));
        // Killed meanwhile and started again, it is not ours to kill.
        if self.process(seat).is_some_and(|p| p.name == process.name) {
            self.kill(seat);
        }
    }

    /// Freezes or thaws the daemon in a seat.
    pub fn set_frozen(&self, seat: usize, frozen: bool) {
        if let Some(process) = self.process(seat) {
            self.log.say(&format!(
                "{} {}",
                process.name,
                if frozen { "frozen" } else { "thawed" }
            ));
            process
                .gate
                .set(if frozen { Motion::Frozen } else { Motion::Running });
        }
    }
}

/// The server key of every daemon of every run.
pub fn token_key() -> TokenKey {
    TokenKey {
        id: "k1".to_owned(),
        secret: [7; 32],
    }
}
