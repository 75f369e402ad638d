//! Other clients.
