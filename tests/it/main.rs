//! The real daemon, driven over gRPC and JSON as agents and people drive it.
//!
//! Whether something was paid is never asked of the daemon: the lab's book says so. Each story has a daemon, a lab and
//! a folder of its own.

mod client;
mod counterparties;
mod crash;
mod demo;
mod disk;
mod errors;
mod expiry;
mod faults;
mod identity;
mod life;
mod payment;
mod races;
mod secrets;
#[cfg(feature = "postgres")]
mod several;
mod start_stop;
mod support;
mod wire;
