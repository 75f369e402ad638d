//! The daemon: configuration, identity, gRPC, JSON and metrics on one port, and the registry of adapters.
//!
//! It is the only crate that knows all the others, and it decides nothing about acts: it reads what operators wrote
//! ([`config`], [`keys`]), makes the parts, hands them to the engine ([`serve`]), and lets two wires ([`grpc`],
//! [`http`]) carry the same verbs ([`verbs`]) to it. `wilcod demo` ([`demo`]) plays a payment through all of it.
//!
//! To add a call: write it in `proto/`, give it a function in [`verbs`], and a few lines on each wire.

pub mod adapters;
pub mod app;
pub mod cli;
pub mod config;
pub mod database;
pub mod demo;
pub mod errors;
pub mod files;
pub mod grpc;
pub mod house;
pub mod http;
pub mod identity;
pub mod keys;
pub mod lab;
pub mod logs;
pub mod metrics;
pub mod port;
pub mod profiles;
pub mod protocol;
pub mod random;
pub mod run_file;
pub mod serve;
pub mod served;
pub mod shutdown;
pub mod store;
pub mod verbs;

#[cfg(test)]
mod testing;

pub use serve::{Running, ServeOptions, StartError, start};
