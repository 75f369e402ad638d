//! What a check has to say: a stable code for programs, a text for people.

use std::fmt;

use crate::chars::shown;

/// One finding. As an error or a problem it stops the handoff; as a warning or a note it is worth logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of finding this is; stable across releases.
    pub code: Code,
    /// The slot it is about, where there is one.
    pub slot: Option<String>,
    /// The value that was expected (the record's, the plan's), where there is one.
    pub want: Option<String>,
    /// The value that was found.
    pub got: Option<String>,
    /// The sentence for people. It carries no control or bidirectional characters.
    pub text: String,
}

impl Problem {
    /// A finding about the line as a whole.
    pub fn new(code: Code, text: impl Into<String>) -> Problem {
        let text: String = text.into();
        let text = match shown(&text) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(clean) => clean,
        };
        Problem {
            code,
            slot: None,
            want: None,
            got: None,
            text,
        }
    }

    /// The same finding, about one slot.
    pub fn slot(mut self, key: &str) -> Problem {
        self.slot = Some(key.to_owned());
        self
    }

    /// The same finding, with the value that was expected.
    pub fn want(mut self, value: impl Into<String>) -> Problem {
        self.want = Some(value.into());
        self
    }

    /// The same finding, with the value that was found.
    pub fn got(mut self, value: impl Into<String>) -> Problem {
        self.got = Some(value.into());
        self
    }

    /// `{code, slot, want, got, text}`, with `null` where there is nothing.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "code": self.code.as_str(), "slot": self.slot, "want": self.want, "got": self.got, "text": self.text,
        })
    }

    /// The same finding with words in front of its text (`HO: ...`).
    pub(crate) fn prefixed(mut self, prefix: &str) -> Problem {
        self.text.insert_str(0, prefix);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The answer of a check: no problems means go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Anything here means stop.
    pub problems: Vec<Problem>,
    /// Assumptions and open points worth logging.
    pub notes: Vec<Problem>,
}

impl Checked {
    /// True when nothing stands in the way.
    pub fn ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// `{ok, problems, notes, details}`: the texts, and each problem in full.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "ok": self.ok(), "problems": texts(&self.problems), "notes": texts(&self.notes),
            "details": details(&self.problems),
        })
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn note(&mut self, note: Problem) {
        self.notes.push(note);
    }
}

/// The sentences alone.
pub(crate) fn texts(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|p| p.text.as_str()).collect()
}

/// Each finding in full, in the order of its sentence.
pub(crate) fn details(problems: &[Problem]) -> serde_json::Value {
    problems.iter().map(Problem::to_json).collect()
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// The stable name of a kind of finding. Programs match on it; [`Problem::text`] may be reworded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code as it is written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

codes! {
    // ---- the form of a line
    /// The line is longer than [`crate::MAX_LINE_BYTES`].
    LineTooLong => "line_too_long",
    /// A control, bidirectional or line-breaking character; outside the tail also white space and invisible ones.
    BadCharacter => "bad_character",
    /// White space before or after the line (warning).
    OuterWhitespace => "outer_whitespace",
    /// More than one space between tokens (warning).
    ExtraSpaces => "extra_spaces",
    /// Fewer than the three positional tokens.
    TooFewTokens => "too_few_tokens",
    /// The first token is not `RW1`.
    BadVersion => "bad_version",
    /// The second token is none of the nine types.
    UnknownType => "unknown_type",
    /// The message id has characters it may not have.
    BadId => "bad_id",
    /// The message id is not `<from>-<n>`.
    IdNotFrom => "id_not_from",
    /// A token after the third without `=`.
    NotKeyValue => "not_key_value",
    /// A key that is not `[a-z][a-z0-9_]*`.
    BadKey => "bad_key",
    /// A key given twice.
    DuplicateKey => "duplicate_key",
    /// `key=` with nothing after it.
    EmptyValue => "empty_value",
    /// A profile that is not loaded, or not a profile name.
    UnknownProfile => "unknown_profile",
    /// The line names another profile than the one it was judged by (warning).
    ProfileMismatch => "profile_mismatch",
    /// A key no loaded slot has (warning; the slot is ignored).
    UnknownKey => "unknown_key",
    /// A slot its type does not define (warning).
    SlotNotDefined => "slot_not_defined",
    /// A value outside a closed vocabulary.
    UnknownCode => "unknown_code",
    /// Not an integer.
    NotAnInteger => "not_an_integer",
    /// An integer outside its range.
    OutOfRange => "out_of_range",
    /// Not a date, or a date no calendar has.
    BadDate => "bad_date",
    /// Not a time in UTC to the minute, or an impossible one.
    BadTime => "bad_time",
    /// Not a number of days, or too many.
    BadDays => "bad_days",
    /// Not an amount with two decimals.
    BadMoney => "bad_money",
    /// Not a number.
    BadNumber => "bad_number",
    /// Neither `Y` nor `N`.
    BadBool => "bad_bool",
    /// An agent or message id with characters it may not have.
    BadName => "bad_name",
    /// An agent the profile does not name.
    UnknownAgent => "unknown_agent",
    /// A slot the type requires is missing.
    MissingSlot => "missing_slot",
    /// `val=tail` without a tail.
    MissingTail => "missing_tail",
    /// `from` and `to` are the same agent (warning).
    SameAgent => "same_agent",
    /// An option or answer outside the profile's closed answers.
    NotAnAnswer => "not_an_answer",
    /// The tail is longer than the core allows.
    TailTooLong => "tail_too_long",
    // ---- writing a line
    /// A value that would become more than one token on the line.
    Smuggled => "smuggled",
    /// A JSON form that is not a message.
    BadJson => "bad_json",
    // ---- the checks
    /// `now` or `at` is not a time in UTC to the minute.
    BadInstant => "bad_instant",
    /// A line of another type than the check is for.
    WrongType => "wrong_type",
    /// The reply does not answer this handoff, or not between these two agents.
    Receipt => "receipt",
    /// The handoff or the statement is past its `exp`.
    Expired => "expired",
    /// The statement's `exp` is later than the handoff's.
    Outlives => "outlives",
    /// `h` is not the digest of the handoff.
    Integrity => "integrity",
    /// The readback leaves out a slot it must echo.
    EchoMissing => "echo_missing",
    /// The readback echoes another value.
    EchoMismatch => "echo_mismatch",
    /// The readback carries no derived criteria.
    AccMissing => "acc_missing",
    /// A criterion the receiver did not derive.
    AccGap => "acc_gap",
    /// A criterion the receiver understood differently.
    AccContradiction => "acc_contradiction",
    /// The receiver excludes what the sender requires.
    AccExcluded => "acc_excluded",
    /// More criteria than are compared.
    AccTooMany => "acc_too_many",
    /// No criteria to compare with (note).
    AccNotCompared => "acc_not_compared",
    /// A criterion key outside the closed set (note).
    AccUnknownKey => "acc_unknown_key",
    /// Two criteria that share only a word (note).
    AccLoose => "acc_loose",
    /// A criterion only the receiver has (note).
    AccAssumption => "acc_assumption",
    /// `rb=plan` and no `do`.
    DoMissing => "do_missing",
    /// The readback leaves out an execution slot.
    ExecMissing => "exec_missing",
    /// The readback has another value for an execution slot.
    ExecMismatch => "exec_mismatch",
    /// The profile names no execution slots for the ask (note).
    NoExecSlots => "no_exec_slots",
    /// An irreversible ask without `rb=exec`.
    ExecNotAsked => "exec_not_asked",
    /// The record holds a value the handoff leaves out.
    RecordMissing => "record_missing",
    /// The handoff has another value than the record.
    RecordMismatch => "record_mismatch",
    /// An execution slot the record cannot confirm (note).
    NotInRecord => "not_in_record",
    /// An execution slot left to the receiver (note).
    LeftToReceiver => "left_to_receiver",
    /// The readback failed its own check, so it is no plan.
    ReadbackFailed => "readback_failed",
    /// The done report leaves out an execution slot (problem under `out=OK`, note under `out=PARTIAL`).
    DoneMissing => "done_missing",
    /// The done report has another value than the plan.
    DoneMismatch => "done_mismatch",
    /// The done report has a value the plan did not hold (note).
    DoneResolved => "done_resolved",
    /// `out=NOOP` with execution values (note).
    NoopWithValues => "noop_with_values",
    // ---- the thread
    /// Two messages with one id.
    DuplicateId => "duplicate_id",
    /// A handoff closed by an agent it was not addressed to.
    StrangerClosed => "stranger_closed",
    /// A handoff closed more than once.
    ClosedTwice => "closed_twice",
    /// Done, although it had been cancelled.
    DoneAfterCancel => "done_after_cancel",
    /// A cancel acknowledged as if nothing ran, after a report that it did.
    DeniedAfterDone => "denied_after_done",
    /// Still open past its time.
    Orphaned => "orphaned",
    /// A cancel that is not from the handoff's sender to its receiver.
    CancelForeign => "cancel_foreign",
    /// A cancel of something that is not a handoff of this thread.
    CancelUnknown => "cancel_unknown",
    /// A cancel nobody acknowledged yet (note).
    CancelPending => "cancel_pending",
    /// A handoff open and in time (note).
    Open => "open",
}
