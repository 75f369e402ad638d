//! The cases. Each is a story: prepared as the daemon prepares, broken at one place, judged by the record.

pub(super) mod plain;
