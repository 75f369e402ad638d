//! The protocol as data: every line of `data/cases.jsonl` is one small story with its outcome.
//!
//! A case names a function (`check`), its arguments, and what must come of it: `ok` when there is nothing to
//! complain about, `problems` and `notes` as pairs of code and slot, in order, `says` as parts that some text must
//! contain, and where it applies the exact `line`, `json`, `digest` or `stage`. A field a case does not use is an
//! error, so that no expectation is skipped by a typing mistake.

use rw1::{Checked, Gate, MakeRb, Problem, Profiles, RbCheck, Record};
use serde_json::{Map, Value};

#[test]
fn every_case_comes_out_as_written() {
    let profiles = Profiles::builtin();
    let text = include_str!("data/cases.jsonl");
    let mut wrong = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let mut case = Case(serde_json::from_str(line).expect("a case is a JSON object"));
        let name = format!("case {} ({})", n + 1, case.text("case").expect("a name"));
        if let Err(why) = run(&profiles, &mut case) {
            wrong.push(format!("{name}: {why}"));
        }
        if let Some(key) = case.0.keys().next() {
            wrong.push(format!("{name}: nothing looked at '{key}'"));
        }
    }
    assert!(text.lines().count() > 100, "the file was read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a function answered, in one shape for all of them.
#[derive(Default)]
struct Answer {
    problems: Vec<Problem>,
    notes: Vec<Problem>,
    line: Option<String>,
    json: Option<Value>,
    digest: Option<String>,
    stage: Option<String>,
}

fn run(profiles: &Profiles, case: &mut Case) -> Result<(), String> {
    let answer = ask(profiles, case);
    let shown = |found: &[Problem]| {
        found
            .iter()
            .map(|p| p.to_string())
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let pairs = |found: &[Problem]| -> Value {
        found
            .iter()
            .map(|p| serde_json::json!([p.code.as_str(), p.slot]))
            .collect()
    };
    let none = || Value::Array(Vec::new());
    let problems = case.take("problems").unwrap_or_else(none);
    if case.take("ok") == Some(Value::Bool(true)) && problems != none() {
        return Err("a case is ok or has problems, not both".into());
    }
    if pairs(&answer.problems) != problems {
        return Err(format!(
            "problems {} [{}]",
            pairs(&answer.problems),
            shown(&answer.problems)
        ));
    }
    let notes = case.take("notes").unwrap_or_else(none);
    if pairs(&answer.notes) != notes {
        return Err(format!(
            "notes {} [{}]",
            pairs(&answer.notes),
            shown(&answer.notes)
        ));
    }
    for part in case.list("says").unwrap_or_default() {
        if !answer
            .problems
            .iter()
            .chain(&answer.notes)
            .any(|p| p.text.contains(&part))
        {
            return Err(format!(
                "nothing says '{part}': {} | {}",
                shown(&answer.problems),
                shown(&answer.notes)
            ));
        }
    }
    for (key, got) in [
        ("line", answer.line.map(Value::from)),
        ("json", answer.json),
        ("digest", answer.digest.map(Value::from)),
        ("stage", answer.stage.map(Value::from)),
    ] {
        let want = case.take(key);
        if want.is_some() && want != got {
            return Err(format!("{key}: {got:?}"));
        }
    }
    Ok(())
}

fn ask(profiles: &Profiles, case: &mut Case) -> Answer {
    let check = case.text("check").expect("a check");
    let profile = case.text("profile");
    let profile = profile.as_deref();
    let line = |result: Result<String, Vec<Problem>>| match result {
        Ok(line) => Answer {
            line: Some(line),
            ..Answer::default()
        },
        Err(problems) => Answer {
            problems,
            ..Answer::default()
        },
    };
    let checked = |c: Checked| Answer {
        problems: c.problems,
        notes: c.notes,
        ..Answer::default()
    };
    match check.as_str() {
        "parse" => {
            let line = case.text("line").expect("a line");
            let parsed = rw1::parse(profiles, profile, &line);
            let json = parsed.message.as_ref().map(rw1::Message::to_json);
            Answer {
                problems: parsed.errors,
                notes: parsed.warnings,
                json,
                ..Answer::default()
            }
        }
        "from_json" => {
            let message = case.take("message").expect("a message");
            line(rw1::from_json(profiles, profile, &message.to_string()))
        }
        "digest" => match rw1::digest(profiles, profile, &case.text("line").expect("a line")) {
            Ok(digest) => Answer {
                digest: Some(digest),
                ..Answer::default()
            },
            Err(problems) => Answer {
                problems,
                ..Answer::default()
            },
        },
        "ho" => {
            let (ho, record) = (case.text("ho").expect("an HO"), case.record().expect("a record"));
            checked(rw1::check_ho(profiles, profile, &ho, &record))
        }
        "rb" => {
            let (ho, rb) = (case.text("ho").expect("an HO"), case.text("rb").expect("an RB"));
            let (acc, now) = (case.list("expect_acc"), case.text("now"));
            let with = RbCheck {
                expect_acc: acc.as_deref(),
                now: now.as_deref(),
            };
            checked(rw1::check_rb(profiles, profile, &ho, &rb, with))
        }
        "dn" => {
            let (ho, dn) = (case.text("ho").expect("an HO"), case.text("dn").expect("a DN"));
            let (rb, at) = (case.text("rb"), case.text("at"));
            checked(rw1::check_dn(
                profiles,
                profile,
                &ho,
                &dn,
                rb.as_deref(),
                at.as_deref(),
            ))
        }
        "thread" => {
            let (lines, now) = (case.list("lines").expect("lines"), case.text("now"));
            checked(rw1::check_thread(profiles, profile, &lines, now.as_deref()))
        }
        "make_rb" => {
            let (ho, id) = (case.text("ho").expect("an HO"), case.text("id").expect("an id"));
            let with = MakeRb {
                acc: case.list("acc").unwrap_or_default(),
                do_: case.text("do"),
                eta: case.text("eta"),
                hash: case.take("hash").is_none_or(|h| h == Value::Bool(true)),
            };
            line(rw1::make_rb(profiles, profile, &ho, &id, &with))
        }
        "gate" => {
            let ho = case.text("ho").expect("an HO");
            let (record, rb, dn) = (case.record(), case.text("rb"), case.text("dn"));
            let (now, at) = (case.text("now"), case.text("at"));
            let given = Gate {
                record: record.as_ref(),
                ho: &ho,
                rb: rb.as_deref(),
                dn: dn.as_deref(),
                expect_acc: None,
                now: now.as_deref(),
                at: at.as_deref(),
            };
            let gated = rw1::gate(profiles, profile, given);
            assert_eq!(
                gated.go,
                gated.problems.is_empty(),
                "go means that nothing stands in the way"
            );
            Answer {
                problems: gated.problems,
                notes: gated.notes,
                stage: Some(gated.stage.into()),
                ..Answer::default()
            }
        }
        other => panic!("no such check: {other}"),
    }
}

/// A case; looking at a field takes it out.
struct Case(Map<String, Value>);

impl Case {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.take(key).and_then(|v| v.as_str().map(str::to_owned))
    }

    fn list(&mut self, key: &str) -> Option<Vec<String>> {
        let list = self.take(key)?;
        Some(
            list.as_array()?
                .iter()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect(),
        )
    }

    fn record(&mut self) -> Option<Record> {
        self.take("record").and_then(|v| v.as_object().cloned())
    }
}
