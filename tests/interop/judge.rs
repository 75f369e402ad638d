//! Two answers to one question, compared. Where ours is stricter, it must be stricter in a way the README of `rw1` lists,
//! and the question must show the reason for it: that is looked for here, in the text itself, not in our answer.

use std::collections::BTreeMap;

use serde_json::Value;
use wilco_tests::lines::slot;

/// What came of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same verdict, problems, JSON form and digest.
    Same,
    /// We refuse more, for a reason that is documented and there: its code.
    Stricter(String),
    /// The package ended with an exception, and we refuse.
    PackageCrashed,
    /// Anything else.
    Wrong(String),
}

/// Compares.
pub fn judge(question: &Value, theirs: &Value, ours: &Value) -> Verdict {
    let our_problems = pairs(&ours["problems"]);
    if let Some(crash) = theirs["crash"].as_str() {
        return match our_problems.is_empty() {
            true => Verdict::Wrong(format!(
                "the package crashed ({crash}) where we find nothing wrong"
            )),
            false => Verdict::PackageCrashed,
        };
    }
    let their_problems = pairs(&theirs["problems"]);
    let extra = without(&our_problems, &their_problems);
    let missing = without(&their_problems, &our_problems);
    if extra.is_empty() && missing.is_empty() {
        return said_the_same(question, theirs, ours, our_problems.is_empty());
    }
    if our_problems.is_empty() {
        return Verdict::Wrong(format!("looser: they find {missing:?}"));
    }
    let lines = lines_of(question);
    let shown = |(code, at): &&(String, String)| documented(code, at, &lines, question);
    // A line that is none is not judged further, and a line with a character that hides is read as it stands: what else
    // either of us finds then follows from that.
    let ends_it = |(code, _): &&(String, String)| match question["f"].as_str() {
        Some("parse") => matches!(code.as_str(), "bad_character" | "line_too_long"),
        Some("check-thread") => !matches!(code.as_str(), "stranger_closed" | "denied_after_done"),
        _ => true,
    };
    if let Some((code, _)) = extra.iter().find(|found| ends_it(found) && shown(found)) {
        return Verdict::Stricter(code.clone());
    }
    if let Some((code, at)) = extra.iter().find(|found| !shown(found)) {
        return Verdict::Wrong(format!("only we find {code} ({at}); only they find {missing:?}"));
    }
    // What is no number to us may be a number out of range to them.
    let same_slot = |(_, at): &(String, String)| !at.is_empty() && extra.iter().any(|(_, other)| other == at);
    match (extra.first(), missing.iter().all(same_slot)) {
        (Some((code, _)), true) => Verdict::Stricter(code.clone()),
        _ => Verdict::Wrong(format!("only they find {missing:?}, only we {extra:?}")),
    }
}

/// Whether a criterion that the caller expects has a character that the package strips off, and we compare as it stands: nothing is
/// wrong then for either, and we have more to remark.
fn strips_a_criterion(question: &Value) -> bool {
    let criteria = question["expect_acc"].as_array().into_iter().flatten();
    let mut texts = criteria.filter_map(Value::as_str);
    texts.any(|text| text.chars().any(|c| c.is_control() || c.is_whitespace()))
}

fn said_the_same(question: &Value, theirs: &Value, ours: &Value, valid: bool) -> Verdict {
    for field in ["message", "digest"] {
        if theirs[field] != ours[field] {
            return Verdict::Wrong(format!("{field}: they say {}, we {}", theirs[field], ours[field]));
        }
    }
    if valid && theirs["notes"] != ours["notes"] {
        let more = theirs["notes"].as_u64() < ours["notes"].as_u64();
        if more && strips_a_criterion(question) {
            return Verdict::Stricter("bad_character".to_owned());
        }
        return Verdict::Wrong(format!(
            "they have {} notes, we {}",
            theirs["notes"], ours["notes"]
        ));
    }
    Verdict::Same
}

/// The rows of the table in `crates/rw1/README.md`, each with what must stand in the question for it.
fn documented(code: &str, at: &str, lines: &[&str], question: &Value) -> bool {
    let values = || {
        lines
            .iter()
            .flat_map(|line| all_values(line, at))
            .flat_map(|value| value.trim_end_matches('\n').split('+'))
    };
    let foreign_digit = |text: &str| text.chars().any(|c| c.is_numeric() && !c.is_ascii());
    match code {
        "bad_character" if at == "tail" => lines
            .iter()
            .filter_map(|l| l.split_once(" //"))
            .any(|(_, t)| t.chars().any(drives_a_terminal)),
        "bad_character" => lines.iter().any(|line| line.chars().any(hides)),
        "line_too_long" => lines.iter().any(|line| line.len() > 16 * 1024),
        "bad_money" | "bad_number" | "not_an_integer" | "not_an_answer" => values().any(foreign_digit),
        "bad_id" | "id_not_from" => ids(lines).into_iter().any(foreign_digit),
        "bad_days" => {
            values().any(|v| foreign_digit(v) || v.trim_end_matches('d').trim_start_matches('0').len() > 9)
        }
        "bad_date" => values().any(|v| foreign_digit(v) || (is_eight_digits(v) && !on_the_calendar(v))),
        "bad_time" => values().any(|v| foreign_digit(v) || impossible_time(v)),
        "duplicate_id" => question["f"] == "check-thread" && has_a_duplicate(&ids(lines)),
        "stranger_closed" => question["f"] == "check-thread" && a_stranger_closes(lines),
        "denied_after_done" => question["f"] == "check-thread" && a_yes_follows_a_report(lines),
        "acc_too_many" => lines
            .iter()
            .any(|line| slot(line, "acc").split('+').count() > 256),
        _ => false,
    }
}

fn lines_of(question: &Value) -> Vec<&str> {
    let named = ["line", "ho", "rb", "dn"]
        .iter()
        .filter_map(|field| question[*field].as_str());
    let listed = question["lines"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    named.chain(listed).collect()
}

/// Every value a key has on a line, whatever separates it.
fn all_values<'a>(line: &'a str, key: &str) -> Vec<&'a str> {
    let head = line.split(" // ").next().unwrap_or(line);
    let tokens = head.split(' ');
    tokens
        .filter_map(|token| token.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

/// Controls, line breaks, and the marks that turn the direction of text (Unicode UAX #9).
fn drives_a_terminal(c: char) -> bool {
    c.is_control() || "\u{2028}\u{2029}\u{061c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".contains(c)
}

/// The same, white space that is no plain space, and what shows nothing (of the characters the questions use).
fn hides(c: char) -> bool {
    drives_a_terminal(c)
        || (c.is_whitespace() && c != ' ')
        || "\u{ad}\u{200b}\u{200c}\u{200d}\u{feff}\u{2060}".contains(c)
}

fn is_eight_digits(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit())
}

fn on_the_calendar(date: &str) -> bool {
    let number = |from: usize, to: usize| date[from..to].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => 0,
    };
    year > 0 && (1..=length).contains(&day)
}

fn impossible_time(text: &str) -> bool {
    let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) else {
        return false;
    };
    if !is_eight_digits(date) || time.len() != 4 || !time.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    !on_the_calendar(date) || time[..2] > *"23" || time[2..] > *"59"
}

fn ids<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let said = lines
        .iter()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    said.filter_map(|line| line.split(' ').filter(|token| !token.is_empty()).nth(2))
        .collect()
}

fn has_a_duplicate(ids: &[&str]) -> bool {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for id in ids {
        *counts.entry(id.trim()).or_default() += 1;
    }
    counts.values().any(|n| *n > 1)
}

fn kind(line: &str) -> &str {
    line.split(' ')
        .filter(|token| !token.is_empty())
        .nth(1)
        .unwrap_or_default()
}

fn a_stranger_closes(lines: &[&str]) -> bool {
    lines
        .iter()
        .filter(|line| matches!(kind(line), "DN" | "UN" | "FL"))
        .any(|closer| {
            lines.iter().any(|ho| {
                kind(ho) == "HO"
                    && ids(&[ho]) == [slot(closer, "re")]
                    && slot(ho, "to") != slot(closer, "from")
            })
        })
}

fn a_yes_follows_a_report(lines: &[&str]) -> bool {
    let report = lines
        .iter()
        .position(|line| kind(line) == "DN" && slot(line, "out") != "NOOP");
    report.is_some_and(|at| {
        lines[at..]
            .iter()
            .any(|line| kind(line) == "AN" && slot(line, "val") == "Y")
    })
}

fn pairs(problems: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pairs: Vec<_> = problems
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| (text(&p[0]), text(&p[1])))
        .collect();
    pairs.sort();
    pairs
}

/// What of `all` is not in `others`, each as often as it is too many.
fn without(all: &[(String, String)], others: &[(String, String)]) -> Vec<(String, String)> {
    let mut others = others.to_vec();
    let extra = all
        .iter()
        .filter(|found| match others.iter().position(|other| other == *found) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        });
    extra.cloned().collect()
}
