//! Tests of the simulator: its own stories, and the suite that every adapter is held to.

mod kit;
mod sim;
mod support;
