//! What happened in a run, one line an event. Two runs of one seed write the same bytes.

use std::sync::Mutex;

use wilco_core::journal::sha256_hex;

use crate::clock::TrueClock;
use crate::locked;

/// The event log of a run.
pub struct Log {
    clock: TrueClock,
    text: Mutex<String>,
    echo: bool,
}

impl Log {
    pub fn new(clock: TrueClock) -> Log {
        Log {
            clock,
            text: Mutex::default(),
            echo: std::env::var_os("WILCO_SIM_ECHO").is_some(),
        }
    }

    /// Writes an event down.
    pub fn say(&self, event: &str) {
        let at = self.clock.passed();
        let line = format!("{:>6}.{:03} {event}\n", at.as_secs(), at.subsec_millis());
        if self.echo {
            print!("{line}");
        }
        locked(&self.text).push_str(&line);
    }

    /// Milliseconds since the run began.
    pub fn passed_ms(&self) -> u128 {
        self.clock.passed().as_millis()
    }

    /// The hash over everything written.
    pub fn hash(&self) -> String {
        sha256_hex(locked(&self.text).as_bytes())
    }

    /// Everything written.
    pub fn text(&self) -> String {
        locked(&self.text).clone()
    }

    /// The lines that name one of these, at most `most` of the last.
    pub fn about(&self, names: &[String], most: usize) -> String {
        let text = locked(&self.text);
        let lines: Vec<&str> = text
            .lines()
            .filter(|l| names.iter().any(|n| !n.is_empty() && l.contains(n.as_str())))
            .collect();
        lines[lines.len().saturating_sub(most)..].join("\n")
    }
}
