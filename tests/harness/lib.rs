//! Tools the tests share: a daemon of their own, a lab of their own, clients.
