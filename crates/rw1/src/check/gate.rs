//! Every check that the lines at hand allow, in order.

use super::{RbCheck, Record, check_dn, check_ho, check_rb};
use crate::problem::{Code, Problem, details, texts};
use crate::profile::Profiles;

/// What is at hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate<'a> {
    /// The approved record. Without one the handoff is still held to its form and to `rb=exec`.
    pub record: Option<&'a Record>,
    /// The handoff.
    pub ho: &'a str,
    /// The readback or statement.
    pub rb: Option<&'a str>,
    /// The done report.
    pub dn: Option<&'a str>,
    /// The acceptance criteria the sender kept to itself.
    pub expect_acc: Option<&'a [String]>,
    /// The instant a confirmation would be given, `YYYYMMDDTHHMMZ`; not used once there is a done report.
    pub now: Option<&'a str>,
    /// The instant the statement was confirmed, for a done report.
    pub at: Option<&'a str>,
}

/// How far one may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// True when every check passed.
    pub go: bool,
    /// The check that failed, or the last one made: `check-ho`, `check-rb` or `check-dn`.
    pub stage: &'static str,
    /// What stands in the way.
    pub problems: Vec<Problem>,
    /// The notes of every check made.
    pub notes: Vec<Problem>,
}

/// Makes every check the given lines allow, in order, and stops at the first that fails.
pub fn gate(profiles: &Profiles, profile: Option<&str>, given: Gate<'_>) -> Gated {
    let none = Record::new();
    let mut first = check_ho(profiles, profile, given.ho, given.record.unwrap_or(&none));
    if given.record.is_none() {
        first.notes.retain(|note| note.code != Code::NotInRecord);
    }
    let mut out = Gated {
        go: first.ok(),
        stage: "check-ho",
        problems: first.problems,
        notes: first.notes,
    };
    if let (true, Some(rb)) = (out.go, given.rb) {
        // once done, the statement is judged as of its confirmation: it may have expired since, and that is no fault
        let now = if given.dn.is_some() { given.at } else { given.now };
        let with = RbCheck {
            expect_acc: given.expect_acc,
            now,
        };
        out.then("check-rb", check_rb(profiles, profile, given.ho, rb, with));
    }
    if let (true, Some(dn)) = (out.go, given.dn) {
        out.then(
            "check-dn",
            check_dn(profiles, profile, given.ho, dn, given.rb, given.at),
        );
    }
    out
}

impl Gated {
    /// `{go, stage, problems, notes, details}`: the texts, and each problem in full.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "go": self.go, "stage": self.stage, "problems": texts(&self.problems), "notes": texts(&self.notes),
            "details": details(&self.problems),
        })
    }

    fn then(&mut self, stage: &'static str, checked: crate::Checked) {
        self.stage = stage;
        self.go = checked.ok();
        self.problems.extend(checked.problems);
        self.notes.extend(checked.notes);
    }
}
