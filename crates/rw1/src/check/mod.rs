//! The checks around an act: before sending, before confirming, after the act, and over a whole conversation.
//!
//! Each is a function of lines that returns [`Checked`](crate::Checked). None of them knows the time: where time
//! matters the caller says which instant to judge as of, and what it does not say is not judged.

mod acc;
mod dn;
mod gate;
mod ho;
mod rb;
mod thread;

use std::borrow::Cow;

pub use dn::check_dn;
pub use gate::{Gate, Gated, gate};
pub use ho::{Record, check_ho};
pub use rb::{RbCheck, check_rb};
pub use thread::check_thread;

use crate::instant::is_minute;
use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Parsed;
use crate::problem::{Checked, Code, Problem};

/// What every readback echoes.
pub(crate) const DEFAULT_ECHO: [&str; 3] = ["item", "ask", "due"];

/// The readback levels; anything else in `rb=` names a slot to echo.
pub(crate) fn is_level(word: &str) -> bool {
    matches!(word, "echo" | "all" | "acc" | "plan" | "exec")
}

/// The words of a handoff's `rb=`, in lower case.
pub(crate) fn readback_set<'a>(ho: &Message<'a>) -> Vec<Cow<'a, str>> {
    ho.list("rb").map(lower).collect()
}

pub(crate) fn lower(s: &str) -> Cow<'_, str> {
    match s.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        true => Cow::Borrowed(s),
        false => Cow::Owned(s.to_lowercase()),
    }
}

/// The message of a line if it has no errors and is of the type a check needs in this place; otherwise `None`, and
/// the errors stand in `checked` with the line's name in front.
fn take<'a>(checked: &mut Checked, name: &str, parsed: Parsed<'a>) -> Option<Message<'a>> {
    match parsed.accepted() {
        Ok(message) => Some(message),
        Err(errors) => {
            checked
                .problems
                .extend(errors.into_iter().map(|e| e.prefixed(&format!("{name}: "))));
            None
        }
    }
}

fn expect_kind(checked: &mut Checked, place: &str, message: &Message<'_>, kind: Kind) {
    if message.kind != kind {
        let text = format!("{place} line is {}, expected {kind}", message.kind);
        checked.problem(
            Problem::new(Code::WrongType, text)
                .want(kind.as_str())
                .got(message.kind.as_str()),
        );
    }
}

/// An instant the caller gave, if it is one; otherwise a problem, since a check that cannot tell the time must not pass.
fn instant<'n>(checked: &mut Checked, name: &str, value: Option<&'n str>) -> Option<&'n str> {
    let value = value?;
    if is_minute(value) {
        return Some(value);
    }
    let text = format!("{name}={value}: times are YYYYMMDDTHHMMZ, in UTC, and exist on the clock");
    checked.problem(Problem::new(Code::BadInstant, text).slot(name).got(value));
    None
}

/// True when an `exp` has come: the instant itself is too late. Both have the same fixed width, so they compare as texts.
fn has_passed(exp: Option<&str>, now: Option<&str>) -> bool {
    matches!((exp, now), (Some(exp), Some(now)) if now >= exp)
}

fn mismatch(code: Code, slot: &str, text: String, want: &str, got: &str) -> Problem {
    Problem::new(code, text).slot(slot).want(want).got(got)
}
