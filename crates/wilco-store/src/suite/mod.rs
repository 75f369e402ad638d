//! The suite every keeper must pass, and the sample acts it is made of. For tests and benchmarks only.
//!
//! Each case is a function that takes a fresh keeper and panics where a promise of the port is broken.
//! [`keeper_suite!`](crate::keeper_suite) makes one test of each.

pub mod sample;
