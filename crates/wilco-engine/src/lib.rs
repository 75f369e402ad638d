//! The shell around the decisions: it loads an act, asks the core what to do, writes it, and only then acts.
//!
//! One verb a file: [`mod@prepare`], [`mod@commit`], [`mod@cancel`], [`mod@recover`], [`mod@settle`], [`mod@release`],
//! [`mod@purge`], [`mod@view`]; [`mod@doubt`] tells people about an act whose outcome is not known. Every verb that changes
//! something runs in a task of its own, so that a caller that hangs up changes nothing.
//!
//! What never lives here: a rule about when something may be confirmed, sent or called undone (that is `wilco-core`),
//! SQL (`wilco-store`), a wire format (`wilco-api`), or anything a counterparty says (`adapters/`).

mod api;
mod cancel;
mod check;
mod commit;
mod doubt;
mod engine;
mod execute;
mod needs;
mod prepare;
mod purge;
mod recover;
mod release;
mod running;
mod settle;
mod slot;
mod view;
mod watch;

pub use api::{
    ActRef, AdapterStatus, Caller, CancelRequest, Cancelled, Chance, CommitRequest, Committed, Config,
    Counts, Doubt, Moment, Parts, PrepareRequest, Prepared, Purged, Released, Role, SettleRequest, Settled,
    StartError, ThreadView,
};
pub use doubt::timeline;
pub use engine::Engine;
pub use needs::Needs;
