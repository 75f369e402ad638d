//! From a line to a message.

use std::collections::BTreeSet;

use crate::chars::{code_point, forbidden_in_slots, forbidden_in_tail};
use crate::kind::Kind;
use crate::message::{Message, Slots};
use crate::problem::{Code, Problem, details, texts};
use crate::profile::{Profile, Profiles};
use crate::value::{Value, is_digits, is_key, is_name, is_signed_decimal, read};
use crate::{MAX_LINE_BYTES, VERSION};

/// What a line says, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The message; partial when there are errors, and `None` when not even its type could be read.
    pub message: Option<Message<'a>>,
    /// Anything here means: this is not a message.
    pub errors: Vec<Problem>,
    /// What a lenient reader lets pass.
    pub warnings: Vec<Problem>,
}

impl<'a> Parsed<'a> {
    /// `{ok, message, errors, warnings, details}`: the message as far as it could be read, the texts, and each error
    /// in full.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "ok": self.errors.is_empty(), "message": self.message.as_ref().map(Message::to_json),
            "errors": texts(&self.errors), "warnings": texts(&self.warnings), "details": details(&self.errors),
        })
    }

    /// The message when there are no errors, otherwise the errors.
    pub fn accepted(self) -> Result<Message<'a>, Vec<Problem>> {
        match self.message {
            Some(message) if self.errors.is_empty() => Ok(message),
            _ => Err(self.errors),
        }
    }
}

/// Reads a line as the checks do: warnings are reported and passed over.
///
/// With `profile: None` the line's own `p=` decides, and without one only the core vocabulary is valid. Line ends
/// after the line are dropped.
pub fn parse<'a>(profiles: &Profiles, profile: Option<&str>, line: &'a str) -> Parsed<'a> {
    match Judge::of(profiles, profile) {
        Ok(judge) => judge.parse(line).0,
        Err(problem) => Parsed {
            message: None,
            errors: vec![problem],
            warnings: Vec::new(),
        },
    }
}

/// Reads a line as a daemon accepts it: every warning is an error. One final `\n` is dropped, nothing else.
///
/// # Errors
/// Everything that is wrong with the line, errors before warnings.
pub fn parse_strict<'a>(
    profiles: &Profiles,
    profile: Option<&str>,
    line: &'a str,
) -> Result<Message<'a>, Vec<Problem>> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let Parsed {
        message,
        mut errors,
        warnings,
    } = parse(profiles, profile, line);
    if line.ends_with('\n') {
        errors.push(outer_whitespace());
    }
    errors.extend(warnings);
    Parsed {
        message,
        errors,
        warnings: Vec::new(),
    }
    .accepted()
}

/// By which vocabulary lines are read.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'p> {
    profiles: &'p Profiles,
    /// The profile the caller named.
    given: Option<&'p Profile>,
    /// Used for a line that names none, when the caller named none either.
    fallback: &'p Profile,
}

impl<'p> Judge<'p> {
    pub(crate) fn of(profiles: &'p Profiles, profile: Option<&str>) -> Result<Judge<'p>, Problem> {
        let fallback = profiles.core();
        match profile {
            None => Ok(Judge {
                profiles,
                given: None,
                fallback,
            }),
            Some(_) => Ok(Judge {
                profiles,
                given: Some(profiles.find(profile)?),
                fallback,
            }),
        }
    }

    /// The same, but a line that names no profile is read by this one: replies belong to their handoff.
    pub(crate) fn falling_back(self, fallback: &'p Profile) -> Judge<'p> {
        Judge { fallback, ..self }
    }

    /// The message and the profile it was read by.
    pub(crate) fn parse<'a>(&self, line: &'a str) -> (Parsed<'a>, &'p Profile) {
        let start = self.given.unwrap_or(self.fallback);
        let mut out = Parsed {
            message: None,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let profile = self.parse_into(line, start, &mut out);
        (out, profile)
    }

    fn parse_into<'a>(&self, line: &'a str, start: &'p Profile, out: &mut Parsed<'a>) -> &'p Profile {
        let Parsed { errors, warnings, .. } = out;
        if line.len() > MAX_LINE_BYTES {
            let text = format!(
                "the line is {} bytes long; at most {MAX_LINE_BYTES} are read",
                line.len()
            );
            errors.push(Problem::new(Code::LineTooLong, text));
            return start;
        }
        let line = line.trim_end_matches('\n');
        let trimmed = line.trim();
        if trimmed.len() != line.len() {
            warnings.push(outer_whitespace());
        }
        let (head, tail) = split_tail(trimmed);
        if let Some(c) = forbidden_in_slots(head) {
            let text = format!(
                "the line carries {}; outside the tail only characters that show are allowed",
                code_point(c)
            );
            errors.push(Problem::new(Code::BadCharacter, text));
        }
        if let Some(c) = tail.and_then(forbidden_in_tail) {
            let text = format!(
                "the tail carries {}; control, bidirectional and line-breaking characters are not allowed",
                code_point(c)
            );
            errors.push(Problem::new(Code::BadCharacter, text).slot("tail"));
        }
        if head.ends_with(' ') || has_pair(head, b' ') {
            let text = "more than one space in a row; one space separates two tokens";
            warnings.push(Problem::new(Code::ExtraSpaces, text));
        }
        let mut tokens = tokens(head);
        let (Some(version), Some(kind), Some(id)) = (tokens.next(), tokens.next(), tokens.next()) else {
            errors.push(Problem::new(
                Code::TooFewTokens,
                "a message begins RW1 <TYPE> <id>",
            ));
            return start;
        };
        if version != VERSION {
            let text = format!("version '{version}' is not {VERSION}; answer UN why=VER");
            errors.push(Problem::new(Code::BadVersion, text).want(VERSION).got(version));
            return start;
        }
        let Ok(kind) = kind.parse::<Kind>() else {
            let text = format!("type '{kind}' is none of HO RB AQ AN ST DN UN FL CX; answer UN why=UNK");
            errors.push(Problem::new(Code::UnknownType, text).got(kind));
            return start;
        };
        if !is_name(id) {
            errors
                .push(Problem::new(Code::BadId, format!("id '{id}' is not made of [A-Za-z0-9._-]")).got(id));
        }
        let seen = collect(tokens, errors);
        let named = seen.iter().find(|(k, _)| *k == "p").map(|(_, v)| *v);
        let profile = match (named, self.given) {
            (Some(name), Some(given)) => {
                if name != given.name() {
                    let text = format!(
                        "the message says p={name} but was judged by profile {}",
                        given.name()
                    );
                    warnings.push(
                        Problem::new(Code::ProfileMismatch, text)
                            .slot("p")
                            .want(given.name())
                            .got(name),
                    );
                }
                given
            }
            (Some(name), None) => self.profiles.get(name).unwrap_or_else(|| {
                errors.push(self.profiles.unknown(name));
                start
            }),
            (None, _) => start,
        };
        out.message = Some(fill(profile, kind, id, seen, tail, errors, warnings));
        profile
    }
}

fn outer_whitespace() -> Problem {
    Problem::new(Code::OuterWhitespace, "white space before or after the line")
}

/// The part before ` // ` and the tail after it. A line may also end in ` //`: its tail is empty.
fn split_tail(line: &str) -> (&str, Option<&str>) {
    // Most lines have no tail, and this is much quicker to see than where one would begin.
    if !has_pair(line, b'/') {
        return (line, None);
    }
    if let Some((head, tail)) = line.split_once(" // ") {
        return (head, Some(tail));
    }
    match line.strip_suffix(" //") {
        Some(head) => (head, Some("")),
        None => (line, None),
    }
}

// The three below read every byte of every line. The library's own, by character, call a comparison for each match.

/// Whether this ASCII byte stands twice in a row.
fn has_pair(s: &str, byte: u8) -> bool {
    let bytes = s.as_bytes();
    let next = bytes.get(1..).unwrap_or_default();
    // Without a way out in the middle, so that many bytes are looked at at once.
    let twice = |found, (a, b): (&u8, &u8)| found | ((*a == byte) & (*b == byte));
    bytes.iter().zip(next).fold(false, twice)
}

/// What stands before and after the first of this ASCII byte.
fn cut(s: &str, byte: u8) -> Option<(&str, &str)> {
    let at = s.bytes().position(|b| b == byte)?;
    Some((&s[..at], &s[at + 1..]))
}

/// What stands between spaces.
fn tokens(head: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(head);
    let next = move || {
        let (token, after) = match cut(rest?, b' ') {
            Some((token, after)) => (token, Some(after)),
            None => (rest?, None),
        };
        rest = after;
        Some(token)
    };
    std::iter::from_fn(next).filter(|token| !token.is_empty())
}

/// The `key=value` tokens. Each that is not one is an error and is left out.
fn collect<'a>(tokens: impl Iterator<Item = &'a str>, errors: &mut Vec<Problem>) -> Vec<(&'a str, &'a str)> {
    let mut seen: Vec<(&str, &str)> = Vec::with_capacity(16);
    // a line of ordinary length is searched as it is; a very long one gets an index
    let mut index: BTreeSet<&str> = BTreeSet::new();
    const INDEX_FROM: usize = 40;
    // one bit for all keys that look alike: where it is not set, there is nothing to search
    let mut marks = 0u64;
    for token in tokens {
        let Some((key, value)) = cut(token, b'=') else {
            let text = format!("'{token}' is not key=value; only RW1, the type and the id stand alone");
            errors.push(Problem::new(Code::NotKeyValue, text).got(token));
            continue;
        };
        if !is_key(key) {
            errors.push(
                Problem::new(
                    Code::BadKey,
                    format!("key '{key}' is not lowercase [a-z][a-z0-9_]*"),
                )
                .got(key),
            );
            continue;
        }
        let known = match seen.len() < INDEX_FROM {
            true => marks & mark(key) != 0 && seen.iter().any(|(k, _)| *k == key),
            false => index.contains(key),
        };
        if known {
            errors.push(
                Problem::new(
                    Code::DuplicateKey,
                    format!("duplicate key {key}: say each fact once"),
                )
                .slot(key),
            );
            continue;
        }
        if value.is_empty() {
            errors.push(
                Problem::new(
                    Code::EmptyValue,
                    format!("{key}= has no value; leave the slot out"),
                )
                .slot(key),
            );
            continue;
        }
        seen.push((key, value));
        marks |= mark(key);
        match seen.len() {
            n if n == INDEX_FROM => index.extend(seen.iter().map(|(k, _)| *k)),
            n if n > INDEX_FROM => {
                index.insert(key);
            }
            _ => {}
        }
    }
    seen
}

fn mark(key: &str) -> u64 {
    let bytes = key.as_bytes();
    let ends = [bytes.first(), bytes.last()].map(|b| b.copied().map_or(0, usize::from));
    1 << ((ends[0] * 5 + ends[1] * 3 + bytes.len()) % 64)
}

/// The message from its slots, and the rules that look at several of them.
fn fill<'a>(
    profile: &Profile,
    kind: Kind,
    id: &'a str,
    seen: Vec<(&'a str, &'a str)>,
    tail: Option<&'a str>,
    errors: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Message<'a> {
    let def = profile.kind(kind);
    let mut message = Message {
        kind,
        id,
        re: None,
        from: "",
        to: "",
        item: None,
        slots: Slots::default(),
        tail,
    };
    let mut slots: Vec<(&str, Value<'_>)> = Vec::with_capacity(seen.len());
    let mut present = 0u128;
    for &(key, raw) in &seen {
        let Some(at) = profile.slot(key) else {
            if key.starts_with("x_") {
                slots.push((key, Value::Text(raw)));
            } else {
                let text = format!("key '{key}' is unknown and ignored; extensions begin with x_");
                warnings.push(Problem::new(Code::UnknownKey, text).slot(key).got(raw));
            }
            continue;
        };
        present |= 1 << at;
        if def.allowed & (1 << at) == 0 {
            let text = format!("slot {key} is not defined for type {kind}");
            warnings.push(Problem::new(Code::SlotNotDefined, text).slot(key).got(raw));
        }
        let value = read(profile, key, &profile.slot_def(at).ty, raw, errors);
        match key {
            "re" => message.re = Some(raw),
            "from" => message.from = raw,
            "to" => message.to = raw,
            "item" => message.item = Some(raw),
            _ => slots.push((key, value)),
        }
    }
    message.slots = Slots::new(slots);
    for &at in &def.required {
        if present & (1 << at) == 0 {
            let key = &profile.slot_def(at).key;
            errors.push(Problem::new(Code::MissingSlot, format!("{kind} requires {key}")).slot(key));
        }
    }
    whole(profile, &message, errors, warnings);
    message
}

/// The rules about a message as a whole.
fn whole(profile: &Profile, m: &Message<'_>, errors: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
    let asks_enum = m.kind == Kind::Aq && m.text("need") == Some("ENUM");
    if asks_enum && !m.slots.contains("opts") {
        errors.push(Problem::new(Code::MissingSlot, "AQ with need=ENUM requires opts").slot("opts"));
    }
    let val = if m.kind == Kind::An { m.text("val") } else { None };
    if val == Some("tail") && m.tail.is_none_or(str::is_empty) {
        errors.push(
            Problem::new(
                Code::MissingTail,
                "AN with val=tail needs a tail to hold the answer",
            )
            .slot("val"),
        );
    }
    if !m.from.is_empty() && m.from == m.to {
        warnings.push(
            Problem::new(Code::SameAgent, format!("from and to are both {}", m.from))
                .slot("to")
                .got(m.to),
        );
    }
    if !m.from.is_empty() && !is_id_of(m.id, m.from) {
        let (id, from) = (m.id, m.from);
        let text = format!("id '{id}' is not <from>-<n>: {from} sends {from}-1, {from}-2 and so on");
        errors.push(
            Problem::new(Code::IdNotFrom, text)
                .want(format!("{from}-<n>"))
                .got(id),
        );
    }
    if let Some(answers) = profile.answers() {
        let mut refuse = |key: &str, given: &str| {
            let codes: Vec<&str> = answers.codes.iter().map(|(code, _)| code.as_str()).collect();
            let text = format!(
                "{key}={given}: not in the answer vocabulary of the profile, which is {}",
                codes.join("/")
            );
            errors.push(
                Problem::new(Code::NotAnAnswer, text)
                    .slot(key)
                    .want(codes.join("+"))
                    .got(given),
            );
        };
        if asks_enum {
            m.list("opts")
                .filter(|option| !answers.has(option))
                .for_each(|option| refuse("opts", option));
        }
        // a number or a date answers an AQ that needs one
        if let Some(val) = val
            && !matches!(val, "tail" | "Y" | "N")
            && !is_signed_decimal(val)
            && !answers.has(val)
        {
            refuse("val", val);
        }
    }
    // a text has at most as many characters as bytes: count only what could be too long
    if let Some(tail) = m.tail
        && tail.len() > profile.tail_max()
    {
        let (length, most) = (tail.chars().count(), profile.tail_max());
        if length > most {
            let text = format!(
                "the tail has {length} characters, {most} are allowed; put it in an artifact and name it in art="
            );
            errors.push(Problem::new(Code::TailTooLong, text).slot("tail"));
        }
    }
}

/// `<from>-<digits>`
pub(crate) fn is_id_of(id: &str, from: &str) -> bool {
    id.strip_prefix(from)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(is_digits)
}
