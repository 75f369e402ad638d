//! The pure heart of Wilco: what an act is, and every decision about it.
//!
//! Here live the states of an act ([`act`]), the commands that move it ([`prepare`], [`commit`], [`cancel`]), the
//! closing of an executed act ([`settle`]), and what to do about the rest when time has passed ([`recovery`],
//! [`quiescence`]). Every hard choice is a function from values to values. Nothing here reads a clock, draws a random
//! number, opens a file or waits: time and chance come in as parameters, and the shell (`wilco-engine`) carries out
//! what is decided.
//!
//! To add a decision: write it as a function that returns a value, test it here, and let the shell obey it.

pub mod act;
pub mod cancel;
pub mod commit;
pub mod contract;
pub mod frozen;
pub mod ids;
pub mod journal;
pub mod lines;
pub mod prepare;
pub mod purge;
pub mod quiescence;
pub mod recovery;
pub mod refusal;
pub mod settle;
#[cfg(test)]
pub(crate) mod testing;
pub mod timestamp;
pub mod token;
pub mod twin;
pub mod write;

pub use act::{Act, Claim, Closed, Execution, Handoff, Offer, Stage, State, Verdict};
pub use contract::{Contract, Guarantee};
pub use frozen::{Frozen, Resolved};
pub use ids::ActId;
pub use refusal::{Reason, Refusal};
pub use timestamp::{Clock, Timestamp};
pub use write::{Change, Durable, Expect, Written};
