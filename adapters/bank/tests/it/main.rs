//! The adapter against the lab bank over HTTP, and against servers that misbehave. The lab's own book is the judge of
//! what was paid; the adapter is only asked what it would tell the daemon.

mod execute;
mod forms;
mod later;
mod lookup;
#[cfg(feature = "prism")]
mod prism;
mod resolve;
mod scheduled;
#[cfg(feature = "jws")]
mod signed;
mod strange;
mod support;
#[cfg(feature = "tls")]
mod tls;
