//! Stories that must come out the same on both databases.

pub mod callback;
pub mod once;
pub mod own;
pub mod prepare;
pub mod tables;
pub mod undo;
