//! `wilcod demo`: one payment, from the approved record to the bank's book, with everything on real sockets.
//!
//! The demo is the sender. It starts a practice bank and a daemon as processes of their own, speaks to the daemon over
//! gRPC with the scheduler's key, and makes the sender's own checks on every line. The bank's book has the last word.

mod bank;
mod house;
mod play;

use std::io::Write;

pub use play::Play;

use house::House;

/// Why the demo did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The folder, a process or a file could not be had.
    #[error("{0}")]
    House(String),
    /// The bank's book or its knobs could not be reached.
    #[error("the lab: {0}")]
    Bank(String),
    /// The daemon refused.
    #[error("the daemon refused {call}: {status}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// What it said.
        status: String,
    },
    /// Something else than planned came back.
    #[error("the demo did not end as it should: {0}")]
    Other(String),
}

/// Plays one payment.
///
/// # Errors
/// [`DemoError`]: it did not end as it should.
pub async fn run(play: Play, keep: bool) -> Result<(), DemoError> {
    let mut house = House::build().await?;
    let ended = play::play(play, &mut house).await;
    if keep {
        house.leave_running();
    } else {
        house.close().await;
    }
    ended
}

/// Prints a line for the reader.
fn say(text: &str) {
    // Nobody is left to tell if standard output is gone.
    let _ = writeln!(std::io::stdout(), "{text}");
}
