//! RW1, the one-line typed messages with which agents hand work to each other: reading and writing lines, the
//! profiles that extend the vocabulary, the fingerprint of a handoff, and the checks around an act that cannot be
//! undone.
//!
//! What lives here is a function of texts. There is no file, socket, clock or randomness in this crate and there
//! never will be: profiles come in as texts, instants as arguments. Everything is linear in the length of its input
//! (the comparison of acceptance criteria, which is not, has a small bound), and every input has a limit.
//!
//! The protocol is the RW1 specification, version RW1 (v0.2). Where this crate refuses something the public
//! implementation lets through, `README.md` names it and the test that shows it.
//!
//! ```
//! let profiles = rw1::Profiles::builtin();
//! let ho = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec amt=5400.00 cur=GBP";
//! let record = serde_json::from_str(r#"{"item": "inv:7", "amt": "5400.00", "cur": "EUR"}"#)?;
//! let checked = rw1::check_ho(&profiles, None, ho, &record);
//! assert_eq!(checked.problems[0].text, "record: cur mismatch: record EUR vs HO GBP");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod chars;
mod check;
mod digest;
mod encode;
mod instant;
mod json;
mod kind;
mod make_rb;
mod message;
mod parse;
mod problem;
mod profile;
mod read_json;
mod value;

pub use check::{Gate, Gated, RbCheck, Record, check_dn, check_ho, check_rb, check_thread, gate};
pub use digest::{canonical, digest, message_digest};
pub use encode::{Draft, encode, from_json, from_json_value, message_to_json, to_json};
pub use instant::{date_to_unix, is_date, is_minute, minute_to_unix, unix_to_minute};
pub use kind::{Kind, UnknownKind};
pub use make_rb::{MakeRb, make_rb};
pub use message::{Message, Slots};
pub use parse::{Parsed, parse, parse_strict};
pub use problem::{Checked, Code, Problem};
pub use profile::{Likeness, Profile, ProfileError, Profiles, Span, legend};
pub use read_json::{read_json, read_record};
pub use value::{MAX_DAYS, Value, money_is_positive, money_minor};

/// The version token every line begins with.
pub const VERSION: &str = "RW1";

/// The longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 16 * 1024;
