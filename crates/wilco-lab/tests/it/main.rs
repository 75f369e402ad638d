//! The lab over real sockets, files and programs. What these tests are after: its records may be believed. The bank pays a
//! consent once whatever is repeated, raced or killed, and its book sums to zero; what a vendor's row, a mail or a ref went
//! through is on record whoever did it; and each fault does what the README's table says and no more.

mod durability;
mod faults;
mod git;
mod knobs;
mod mail;
mod page;
mod payments;
mod releases;
mod scheduled;
mod support;
mod validation;
mod vendors;
mod versions;
