//! The fourth tier: the sender's acceptance criteria against those the receiver derived (RW1 specification §5.2).
//!
//! Values are compared as facts rather than as texts: in lower case, without punctuation, after an alias table. A key
//! that may repeat also accepts a match on one distinctive word, and says so; a single-valued key never does, so that
//! `len:120w` and `len:150w` always contradict.

use std::collections::BTreeSet;

use super::lower;
use crate::problem::{Checked, Code, Problem};
use crate::profile::Criteria;

/// More criteria than this on one side are not compared: comparing is quadratic, and no brief has so many.
pub(super) const MAX_CRITERIA: usize = 256;

/// A criterion's value, ready to compare.
#[derive(Clone, Debug)]
pub(super) struct Criterion {
    /// As given, in lower case.
    text: String,
    /// Its words, joined.
    joined: String,
    words: BTreeSet<String>,
}

/// How alike two values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    No,
    Strictly,
    /// They share a distinctive word, no more.
    Loosely,
}

impl Criterion {
    pub(super) fn of(criteria: &Criteria, value: &str) -> Criterion {
        let text = value.trim();
        let canonical = criteria
            .aliases
            .iter()
            .find(|(word, others)| word == text || others.iter().any(|other| other == text))
            .map_or(text, |(word, _)| word.as_str());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let words: Vec<&str> = canonical
            .split(|c| !plain(c))
            .filter(|w| !w.is_empty())
            .map(singular)
            .collect();
        Criterion {
            text: text.to_owned(),
            joined: words.concat(),
            words: words.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The same fact, strictly.
    pub(super) fn same(&self, other: &Criterion) -> bool {
        self.alike(other) == Alike::Strictly
    }

    fn alike(&self, other: &Criterion) -> Alike {
        let (a, b) = (&self.joined, &other.joined);
        let prefix = a.len() >= 4 && b.len() >= 4 && (a.starts_with(b.as_str()) || b.starts_with(a.as_str()));
        let within = !self.words.is_empty()
            && !other.words.is_empty()
            && (self.words.is_subset(&other.words) || other.words.is_subset(&self.words));
        if a == b || prefix || within {
            return Alike::Strictly;
        }
        // five letters or more make a word distinctive: the short words of a brief say little
        match self.words.intersection(&other.words).any(|w| w.len() >= 5) {
            true => Alike::Loosely,
            false => Alike::No,
        }
    }
}

/// Crude, and enough for constraint values: `dashes` and `dashe` meet, `press` stays.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if word.len() >= 5 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

/// The value of a `must:` criterion.
pub(super) fn required(criteria: &Criteria, token: &str) -> Option<Criterion> {
    let (key, value) = split(token);
    (key == "must").then(|| Criterion::of(criteria, &value))
}

/// `len:120w` as key and value, both in lower case; a bare word is a key.
fn split(token: &str) -> (String, String) {
    let (key, value) = token.split_once(':').unwrap_or((token, ""));
    (lower(key.trim()).into_owned(), lower(value.trim()).into_owned())
}

/// Criteria by key, in the order in which the keys came.
struct Set(Vec<(String, Vec<Criterion>)>);

impl Set {
    fn of(criteria: &Criteria, tokens: &[&str]) -> Set {
        let mut set = Set(Vec::new());
        for token in tokens {
            let (key, value) = split(token);
            set.add(key, Criterion::of(criteria, &value));
        }
        set
    }

    fn add(&mut self, key: String, value: Criterion) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(value),
            None => self.0.push((key, vec![value])),
        }
    }

    fn get(&self, key: &str) -> Option<&[Criterion]> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, values)| values.as_slice())
    }
}

fn joined(values: &[Criterion]) -> String {
    values
        .iter()
        .map(|v| v.text.as_str())
        .collect::<Vec<_>>()
        .join("/")
}

/// Compares what the sender expects with what the receiver derived. `keys` are the dimensions the handoff asked for,
/// `excluded` the receiver's `not=`, which counts as `no:` criteria.
pub(super) fn compare(
    checked: &mut Checked,
    criteria: &Criteria,
    expected: &[&str],
    derived: &[&str],
    keys: &[&str],
    excluded: &[&str],
) {
    let most = expected.len().max(derived.len() + excluded.len());
    if most > MAX_CRITERIA {
        let text =
            format!("tier4 comprehension: {most} criteria; at most {MAX_CRITERIA} on a side are compared");
        checked.problem(Problem::new(Code::AccTooMany, text).slot("acc"));
        return;
    }
    let expected = Set::of(criteria, expected);
    let mut derived = Set::of(criteria, derived);
    for token in excluded {
        derived.add("no".into(), Criterion::of(criteria, &lower(token)));
    }
    for (key, _) in expected
        .0
        .iter()
        .chain(&derived.0)
        .filter(|(key, _)| !criteria.knows(key))
    {
        let mut known: Vec<&str> = criteria.keys.iter().map(|(k, _)| k.as_str()).collect();
        known.sort_unstable();
        let text = format!(
            "key {key} is not in the closed constraint set ({}) and was not compared",
            known.join(" ")
        );
        checked.note(Problem::new(Code::AccUnknownKey, text).slot("acc").got(key));
    }
    for (key, wants) in expected.0.iter().filter(|(key, _)| criteria.knows(key)) {
        match derived.get(key) {
            None => gap(checked, key, &joined(wants)),
            Some(has) if criteria.repeats(key) => compare_sets(checked, key, wants, has),
            Some(has) => {
                if !has.iter().any(|h| wants.first().is_some_and(|w| w.same(h))) {
                    let (want, got) = (joined(wants), joined(has));
                    let text = format!(
                        "tier4 comprehension: contradiction on {key}: sender {want} vs receiver {got}"
                    );
                    checked.problem(
                        Problem::new(Code::AccContradiction, text)
                            .slot("acc")
                            .want(want)
                            .got(got),
                    );
                }
            }
        }
    }
    let mut asked: BTreeSet<String> = BTreeSet::new();
    for key in keys {
        let key = lower(key);
        let missing = criteria.knows(&key) && derived.get(&key).is_none() && expected.get(&key).is_none();
        if missing && asked.insert(key.to_string()) {
            let text = format!(
                "tier4 comprehension: gap, sender asked for {key} in keys= and receiver says nothing about it"
            );
            checked.problem(Problem::new(Code::AccGap, text).slot("acc").want(key));
        }
    }
    for (key, has) in &derived.0 {
        if criteria.knows(key) && expected.get(key).is_none() && !criteria.repeats(key) {
            assumption(checked, key, &joined(has));
        }
    }
}

fn compare_sets(checked: &mut Checked, key: &str, wants: &[Criterion], has: &[Criterion]) {
    for want in wants {
        let best = has.iter().map(|h| (want.alike(h), h.text.as_str())).max();
        match best {
            None | Some((Alike::No, _)) => gap(checked, key, &want.text),
            Some((Alike::Strictly, _)) => {}
            Some((Alike::Loosely, other)) => {
                let text = format!(
                    "loose match: sender {key}:{} taken as receiver {key}:{other}",
                    want.text
                );
                checked.note(
                    Problem::new(Code::AccLoose, text)
                        .slot("acc")
                        .want(want.text.clone())
                        .got(other),
                );
            }
        }
    }
    for extra in has
        .iter()
        .filter(|h| wants.iter().all(|w| w.alike(h) == Alike::No))
    {
        assumption(checked, key, &extra.text);
    }
}

fn gap(checked: &mut Checked, key: &str, want: &str) {
    let text = format!("tier4 comprehension: gap, receiver did not derive {key}:{want}");
    checked.problem(
        Problem::new(Code::AccGap, text)
            .slot("acc")
            .want(format!("{key}:{want}")),
    );
}

fn assumption(checked: &mut Checked, key: &str, got: &str) {
    let text = format!("assumption: receiver added {key}:{got}; confirm it or correct it");
    checked.note(
        Problem::new(Code::AccAssumption, text)
            .slot("acc")
            .got(format!("{key}:{got}")),
    );
}
