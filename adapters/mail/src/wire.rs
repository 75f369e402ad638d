//! The forms mail has on the wire, and ours, translated. Pure: values in, bytes out, and back.
//!
//! `address` says what an address is, `encode` writes what is not ASCII in seven bits, `message` builds the message, `smtp` and
//! `imap` write commands and read replies. Nothing a slot holds gets into a header or a command but through a type made here.

pub(crate) mod address;
pub(crate) mod encode;
pub(crate) mod imap;
pub(crate) mod message;
pub(crate) mod smtp;
