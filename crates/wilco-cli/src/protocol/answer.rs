//! What a verb prints: lines for people, or one JSON object.

use rw1::{Checked, Problem};
use serde_json::{Value, json};

/// The answer of a verb, in both forms.
pub(super) struct Answer {
    ok: bool,
    lines: Vec<String>,
    json: Value,
}

/// Why there is none.
pub(super) enum Failed {
    /// The command line cannot be carried out.
    Usage(String),
    /// What was given is not what the verb works on.
    Refused(Vec<Problem>),
}

impl Answer {
    pub(super) fn new(ok: bool, lines: Vec<String>, json: Value) -> Answer {
        Answer { ok, lines, json }
    }

    /// One text under one name.
    pub(super) fn named(name: &str, text: String) -> Answer {
        let json = json!({ name: text });
        Answer::new(true, vec![text], json)
    }

    /// A text that has no JSON form of its own.
    pub(super) fn plain(text: String) -> Answer {
        Answer::named("text", text)
    }

    /// The findings of a check, each line with its mark, and what is said when there are none.
    pub(super) fn checked(found: &Checked, mark: &str, fine: &str) -> Answer {
        let problems = found.problems.iter().map(|p| format!("{mark}: {p}"));
        let mut lines: Vec<String> = problems
            .chain(found.notes.iter().map(|n| format!("NOTE: {n}")))
            .collect();
        if found.ok() {
            lines.push(format!("OK {fine}"));
        }
        Answer::new(found.ok(), lines, found.to_json())
    }

    /// The exit code and what goes to standard output.
    pub(super) fn printed(self, as_json: bool) -> (u8, String) {
        let mut out = if as_json {
            self.json.to_string()
        } else {
            self.lines.join("\n")
        };
        if !out.is_empty() {
            out.push('\n');
        }
        (u8::from(!self.ok), out)
    }
}

/// The answer when there is none: what is wrong with what was given.
pub(super) fn refused(problems: &[Problem]) -> Answer {
    let texts: Vec<&str> = problems.iter().map(|p| p.text.as_str()).collect();
    let error = texts.join("; ");
    let details: Value = problems.iter().map(Problem::to_json).collect();
    let json = json!({ "ok": false, "error": error, "details": details });
    Answer::new(false, vec![format!("ERROR: {error}")], json)
}
