//! What a campaign of kills does not show: a process that stands still past its deadline, a database somebody locked, a disk
//! that is full in the middle of a batch, and the order of system calls.
//!
//! The daemons are real, the bank is a process of its own, and its book judges.

mod full;
mod locked;
#[cfg(feature = "postgres")]
mod onlooker;
mod order;
mod paused;
#[path = "../../it/support.rs"]
#[allow(dead_code)]
mod support;
