//! The lab over real HTTP. What these tests are after: this book may be believed. It pays a consent once whatever
//! is repeated, raced or killed, it sums to zero, and each fault does what the README's table says and no more.

mod durability;
mod faults;
mod knobs;
mod payments;
mod scheduled;
mod support;
mod validation;
mod versions;
