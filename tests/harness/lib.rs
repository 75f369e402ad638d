//! Tools the tests share: a daemon of their own, a lab of their own, clients that speak as an agent or a person would.
//!
//! What lives here drives the real binaries from outside and asserts nothing about them, but that they can be started
//! and reached. What never lives here: a shortcut into the daemon. A test that wants to know whether something was
//! paid asks the lab's book.
//!
//! Every daemon and lab has a folder and ports of its own, so tests run side by side. What is started here is killed
//! and removed when its value is dropped, also when the test fails.

pub mod binaries;
pub mod caller;
pub mod daemon;
pub mod folder;
pub mod lab;
pub mod lines;
pub mod postgres;
pub mod process;

pub use caller::{Caller, Refused, WIRES, Wire};
pub use daemon::{Daemon, Setup};
pub use folder::Folder;
pub use lab::{Bank, Book, LabProcess};
pub use lines::{Payment, cancel_line, confirmation, decline};
pub use process::Process;

/// The date of every lab and every payment in the tests: the lab's day is frozen, so that midnight does not matter.
pub const TODAY: &str = "20261002";

/// How long anything may take before a test gives up. A safety net, never an expectation.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// Waits until `look` sees something, looking often.
///
/// # Panics
/// After [`PATIENCE`], naming what was waited for.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "waited {PATIENCE:?} in vain for {what}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
