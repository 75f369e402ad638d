//! The real daemon.
