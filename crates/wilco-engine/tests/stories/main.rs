//! The executor's promises, as stories: what callers, counterparties, clocks and stores do to it, and what is true
//! afterwards.

#[path = "../common/mod.rs"]
mod common;

mod cancels;
mod counterparties;
mod doubt;
mod flow;
mod ids;
mod keeping;
mod owners;
mod paths;
mod races;
mod twins;
mod undo;
