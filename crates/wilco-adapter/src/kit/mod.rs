//! The kit: one suite for every adapter, with the counterparty's own record as the judge.
//!
//! An adapter's tests provide a [`Bench`]: the adapter, a counterparty of its own, jobs, and a way to read the
//! counterparty's record. The kit runs the cases that the adapter's contract allows, breaks the line in between at every
//! turn of the conversation ([`FaultProxy`]), and compares whatever the adapter says with what the record shows.
//!
//! ```ignore
//! #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
//! async fn the_kit() {
//!     let bench = Counterparty::start().await; // implements Bench
//!     kit::run(&bench).await.assert_sound();
//! }
//! ```
//!
//! [`check`] is the smaller thing, for a configured adapter at a counterparty whose record cannot be read.
//!
//! `bench` is what a harness provides, `proxy` the line, `props` what tests need of the daemon's making.

mod bench;
mod cases;
mod check;
mod clock;
mod findings;
mod judge;
mod patience;
mod props;
mod proxy;
mod run;
mod sane;
mod trial;

pub use bench::{Bench, Effect, Fault};
pub use check::check;
pub use clock::Still;
pub use findings::{Case, Finding, Findings};
pub use props::{SENDABLE_S, act_id, frozen_of, job, permit, served};
pub use proxy::{Break, FaultProxy};
pub use run::run;
