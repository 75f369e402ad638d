//! The adapter against a Maildir, against mail servers that follow a script, and, with the feature `servers`, against
//! Postfix, its smtp-sink, and Dovecot. What was mailed is judged by what the other side has; the adapter is only asked
//! what it would tell the daemon.

mod imap;
mod kill;
mod kit;
mod maildir;
mod resolve;
mod script;
mod smtp;
mod support;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "servers")]
mod servers;
