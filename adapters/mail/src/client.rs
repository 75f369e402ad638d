//! The only IO with counterparties: a Maildir, an SMTP server, an archive mailbox over IMAP.
//!
//! Nothing here retries, follows a referral or keeps a connection.

mod conn;
pub(crate) mod imap;
pub(crate) mod maildir;
pub(crate) mod smtp;
