//! Other people's clients and programs against ours: the public package `rogerwilco` as its authors ship it, and its
//! codec and checks as the sender's side of a real daemon.
//!
//! Asked for by the feature `interop`; needs the Python that `cargo xtask test` makes.

mod command;
mod conformance;
mod differential;
mod judge;
mod mutate;
mod oracle;
mod ours;
mod readme;
mod stories;
mod walk;
