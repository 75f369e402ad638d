//! What went wrong, and what to do next.

use std::fmt;
use std::process::ExitCode;

use serde_json::{Map, Value};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::table::plain;

/// A verb that did not end as wished.
#[derive(Debug)]
pub struct Problem {
    text: String,
    reason: Option<String>,
    detail: Vec<(String, String)>,
    retry_after_s: Option<u64>,
    next: Option<&'static str>,
    usage: bool,
}

impl Problem {
    /// A problem on our side.
    pub fn new(text: impl Into<String>) -> Problem {
        Problem {
            text: text.into(),
            reason: None,
            detail: Vec::new(),
            retry_after_s: None,
            next: None,
            usage: false,
        }
    }

    /// A command line that cannot be carried out.
    pub fn usage(text: impl Into<String>) -> Problem {
        Problem {
            usage: true,
            ..Problem::new(text)
        }
    }

    /// The exit code: 2 for a command line that cannot be carried out, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }

    /// With what to do next.
    pub fn next(mut self, next: &'static str) -> Problem {
        self.next = Some(next);
        self
    }

    /// A refusal of the daemon.
    pub fn refused(status: &Status) -> Problem {
        let details = status.get_error_details();
        let retry_after_s = details
            .retry_info()
            .and_then(|r| r.retry_delay)
            .map(|d| d.as_secs());
        let Some(info) = details.error_info() else {
            let problem = Problem::new(format!(
                "the daemon does not answer: {} ({})",
                status.message(),
                status.code()
            ));
            return match status.code() {
                Code::Unavailable => problem.next("is it running? `wilcod serve` says where it listens"),
                _ => problem,
            };
        };
        let mut detail: Vec<(String, String)> = info
            .metadata
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        detail.sort();
        Problem {
            text: status.message().to_owned(),
            next: next_step(&info.reason),
            reason: Some(info.reason.clone()),
            detail,
            retry_after_s,
            usage: false,
        }
    }

    /// A refusal of an operator's word: the act says why, and until when.
    pub fn word_refused(status: &Status) -> Problem {
        let problem = Problem::refused(status);
        match problem.reason.as_deref() {
            Some("REFUSED" | "HELD") => {
                problem.next("wilco show ACT says how it stands, and from when a word is taken")
            }
            Some("NOT_YOURS") => problem.next("use an operator's key, not the sender's: --as duty"),
            _ => problem,
        }
    }

    /// As the JSON API says it.
    pub fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("error".to_owned(), Value::from(self.text.clone()));
        if let Some(reason) = &self.reason {
            object.insert("reason".to_owned(), Value::from(reason.clone()));
        }
        for (name, value) in &self.detail {
            let value = match name.as_str() {
                "problems" => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value.clone())),
                _ => Value::from(value.clone()),
            };
            object.insert(name.clone(), value);
        }
        if let Some(seconds) = self.retry_after_s {
            object.insert("retry_after_s".to_owned(), Value::from(seconds));
        }
        Value::Object(object).to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.reason {
            write!(f, "{reason}: ")?;
        }
        write!(f, "{}", plain(&self.text))?;
        for (name, value) in &self.detail {
            if name == "problems" {
                continue;
            }
            write!(f, "\n  {name}: {}", plain(value))?;
        }
        for text in self.problem_texts() {
            write!(f, "\n  - {}", plain(&text))?;
        }
        match (self.next, self.retry_after_s) {
            (Some(next), Some(seconds)) => write!(f, "\n  next: {next} (in {seconds} s)"),
            (Some(next), None) => write!(f, "\n  next: {next}"),
            (None, Some(seconds)) => write!(f, "\n  next: try again in {seconds} s"),
            (None, None) => Ok(()),
        }
    }
}

impl Problem {
    fn problem_texts(&self) -> Vec<String> {
        let Some((_, text)) = self.detail.iter().find(|(name, _)| name == "problems") else {
            return Vec::new();
        };
        let problems: Vec<wilco_api::v1::Problem> = serde_json::from_str(text).unwrap_or_default();
        problems.into_iter().map(|p| p.text).collect()
    }
}

fn next_step(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "UNAUTHENTICATED" => "give a key: --data DIR with --as PRINCIPAL, WILCO_KEY, or --key",
        "NOT_YOURS" => "use the key of a principal that speaks for the line's sender: --as PRINCIPAL",
        "MALFORMED" => "correct what is named, and send it again",
        "UNKNOWN_TOKEN" => "prepare the handoff again: the same handoff gets the same token",
        "UNKNOWN_ACT" => "look for it: wilco acts --all",
        "DIGEST_REQUIRED" => "check the statement, and say which: --sha256 or --statement",
        "CONFIRMATION_REQUIRED" => "confirm with an AN line: --confirmation",
        "DIGEST_STALE" => "check the current statement, and confirm that one",
        "HANDOFF_CONFLICT" => "give the new handoff an id of its own",
        "CANCELLED" | "REFUSED" | "SUPERSEDED" => {
            "it is closed; hand off anew under a new id if it is still wanted"
        }
        "HELD" => {
            "it cannot be confirmed. A likely twin is released by an operator (wilco release ACT); anything else: cancel it, \
             and hand off anew from the record"
        }
        "EXPIRED" | "LAPSED" => "prepare the same handoff again: the next statement has a new token",
        "NOT_APPROVED" => "have it approved, then confirm again",
        "LIMIT" => "a limit forbids it: the message says which",
        "HALTED" | "ADAPTER_DOWN" | "STORE_DOWN" => "ask again with the same request: it is answered once",
        "BUSY" => "ask again with the same request",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::time::Duration;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_refusal_is_told_with_its_reason_and_the_next_step() {
        let mut details = ErrorDetails::new();
        let metadata = HashMap::from([
            ("field".to_owned(), "record".to_owned()),
            (
                "problems".to_owned(),
                r#"[{"code":"c","slot":"amt","want":"","got":"","text":"amt differs\u001b[2J"}]"#.to_owned(),
            ),
        ]);
        details.set_error_info("MALFORMED", "wilco.v1", metadata);
        details.set_retry_info(Some(Duration::from_secs(3)));
        let problem = Problem::refused(&Status::with_error_details(
            Code::InvalidArgument,
            "the record differs",
            details,
        ));
        let text = problem.to_string();
        for needle in [
            "MALFORMED: the record differs",
            "field: record",
            "- amt differs",
            "next: correct",
            "in 3 s",
        ] {
            assert!(text.contains(needle), "{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let json: Value = serde_json::from_str(&problem.json()).expect("JSON");
        assert_eq!(
            (&json["reason"], &json["problems"][0]["slot"]),
            (&Value::from("MALFORMED"), &Value::from("amt"))
        );
        assert_eq!(json["retry_after_s"], 3);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_told_as_such() {
        let text = Problem::refused(&Status::unavailable("connection refused")).to_string();
        assert!(
            text.contains("does not answer") && text.contains("is it running"),
            "{text}"
        );
    }
}
