//! The nine message types.

use std::fmt;
use std::str::FromStr;

/// A message type (RW1 specification §3). The order is the order in which the core profile lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Handoff: here is work, do this with it.
    Ho,
    /// Readback: what was received, and what will be done about it.
    Rb,
    /// A bounded question.
    Aq,
    /// The answer to a question, or to a cancel.
    An,
    /// A state change, without a handover.
    St,
    /// Done.
    Dn,
    /// Unable: not taken.
    Un,
    /// Taken, and it failed.
    Fl,
    /// Cancel: the sender withdraws a handoff.
    Cx,
}

impl Kind {
    /// Every type, in the order of the specification.
    pub const ALL: [Kind; 9] = [
        Kind::Ho,
        Kind::Rb,
        Kind::Aq,
        Kind::An,
        Kind::St,
        Kind::Dn,
        Kind::Un,
        Kind::Fl,
        Kind::Cx,
    ];

    /// The two capital letters used on a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Ho => "HO",
            Kind::Rb => "RB",
            Kind::Aq => "AQ",
            Kind::An => "AN",
            Kind::St => "ST",
            Kind::Dn => "DN",
            Kind::Un => "UN",
            Kind::Fl => "FL",
            Kind::Cx => "CX",
        }
    }

    /// True for the three types with which a receiver closes a handoff (RW1 specification §5.4).
    pub fn closes(self) -> bool {
        matches!(self, Kind::Dn | Kind::Un | Kind::Fl)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not one of the nine types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message type: HO RB AQ AN ST DN UN FL CX are the nine")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(s: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|k| k.as_str() == s).ok_or(UnknownKind)
    }
}
