//! From a message to its line, and from the JSON form to a line.
//!
//! Whatever is written is read back before it is handed out. A value that would become more than one token, or that
//! would end the line, is refused: the line must say what the message says and nothing else.

use serde_json::Value as Json;

use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Judge;
use crate::problem::{Code, Problem};
use crate::profile::{Profile, Profiles};
use crate::read_json::read_json;
use crate::{VERSION, json};

/// A message to be written. Values are texts as they stand on the line (`exec`, `a+b`, `Y`, `5400.00`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The type.
    pub kind: Kind,
    /// The message id, `<from>-<n>`.
    pub id: String,
    /// The message this one replies to.
    pub re: Option<String>,
    /// The sending agent.
    pub from: String,
    /// The receiving agent.
    pub to: String,
    /// The thing under discussion.
    pub item: Option<String>,
    /// The other slots; their order does not matter, an empty value leaves the slot out.
    pub slots: Vec<(String, String)>,
    /// The free text; a line end in it becomes a space, white space at its end is dropped, an empty one is none.
    pub tail: Option<String>,
}

impl Draft {
    /// A draft with the fields every message has.
    pub fn new(kind: Kind, id: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Draft {
        Draft {
            kind,
            id: id.into(),
            re: None,
            from: from.into(),
            to: to.into(),
            item: None,
            slots: Vec::new(),
            tail: None,
        }
    }

    /// The same draft, as a reply to this message.
    pub fn re(mut self, id: impl Into<String>) -> Draft {
        self.re = Some(id.into());
        self
    }

    /// The same draft, about this thing.
    pub fn item(mut self, item: impl Into<String>) -> Draft {
        self.item = Some(item.into());
        self
    }

    /// The same draft with one more slot.
    pub fn slot(mut self, key: impl Into<String>, value: impl Into<String>) -> Draft {
        self.slots.push((key.into(), value.into()));
        self
    }

    /// The same draft with a tail.
    pub fn tail(mut self, tail: impl Into<String>) -> Draft {
        self.tail = Some(tail.into());
        self
    }
}

impl From<&Message<'_>> for Draft {
    fn from(m: &Message<'_>) -> Draft {
        Draft {
            kind: m.kind,
            id: m.id.to_owned(),
            re: m.re.map(str::to_owned),
            from: m.from.to_owned(),
            to: m.to.to_owned(),
            item: m.item.map(str::to_owned),
            slots: m
                .slots
                .iter()
                .map(|(k, v)| (k.to_owned(), v.show().into_owned()))
                .collect(),
            tail: m.tail.map(str::to_owned),
        }
    }
}

/// Writes a message as a line: `re from to item`, then the slots in the order of the specification and the profile,
/// then the rest. With `profile: None` the draft's own `p` decides.
///
/// # Errors
/// What is wrong with the message; nothing is written in part.
pub fn encode(profiles: &Profiles, profile: Option<&str>, draft: &Draft) -> Result<String, Vec<Problem>> {
    encode_as(profiles, profile, draft, draft.kind.as_str())
}

/// The JSON form of a line, as text (RW1 specification §6).
///
/// # Errors
/// What is wrong with the line.
pub fn to_json(profiles: &Profiles, profile: Option<&str>, line: &str) -> Result<String, Vec<Problem>> {
    let judge = Judge::of(profiles, profile).map_err(|p| vec![p])?;
    judge
        .parse(line)
        .0
        .accepted()
        .map(|message| json::message(&message))
}

/// The JSON form of a message that was read, as text.
pub fn message_to_json(message: &Message<'_>) -> String {
    json::message(message)
}

/// The line of a JSON form given as text.
///
/// # Errors
/// The text is not JSON of this shape, has a key given twice, or the message is not valid.
pub fn from_json(profiles: &Profiles, profile: Option<&str>, text: &str) -> Result<String, Vec<Problem>> {
    let value = read_json(text).map_err(|p| vec![p.slot("message")])?;
    from_json_value(profiles, profile, &value)
}

/// The line of a JSON form.
///
/// # Errors
/// The value is not a message, or the message is not valid.
pub fn from_json_value(
    profiles: &Profiles,
    profile: Option<&str>,
    value: &Json,
) -> Result<String, Vec<Problem>> {
    let (draft, kind) = draft_of(value).map_err(|p| vec![p])?;
    encode_as(profiles, profile, &draft, kind)
}

/// A JSON value as it is written on a line; `None` for what has no such form.
pub(crate) fn line_text(value: &Json) -> Option<String> {
    match value {
        Json::String(s) => Some(s.clone()),
        Json::Number(n) => Some(n.to_string()),
        Json::Bool(b) => Some(if *b { "Y" } else { "N" }.to_owned()),
        Json::Array(items) => {
            let mut parts = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Json::String(s) => parts.push(s.clone()),
                    Json::Number(n) => parts.push(n.to_string()),
                    _ => return None,
                }
            }
            Some(parts.join("+"))
        }
        Json::Null | Json::Object(_) => None,
    }
}

/// `kind` is given apart from the draft, so that an unknown type is answered like one on a line.
fn encode_as(
    profiles: &Profiles,
    profile: Option<&str>,
    draft: &Draft,
    kind: &str,
) -> Result<String, Vec<Problem>> {
    let own = draft
        .slots
        .iter()
        .find(|(key, value)| key == "p" && !value.is_empty())
        .map(|(_, value)| value.as_str());
    let vocabulary = profiles.find(profile.or(own)).map_err(|p| vec![p])?;

    let header = [
        ("re", draft.re.as_deref()),
        ("from", Some(draft.from.as_str())),
        ("to", Some(draft.to.as_str())),
        ("item", draft.item.as_deref()),
    ];
    let header = header.into_iter().filter_map(|(key, value)| Some((key, value?)));
    // the order of the specification, then the rest as given
    let mut slots: Vec<(usize, &str, &str)> = draft
        .slots
        .iter()
        .map(|(key, value)| (place(vocabulary, key), key.as_str(), value.as_str()))
        .collect();
    slots.sort_by_key(|(at, _, _)| *at);
    let pairs = header
        .chain(slots.into_iter().map(|(_, key, value)| (key, value)))
        .filter(|(_, value)| !value.is_empty());

    let mut problems = Vec::new();
    let mut line = format!("{VERSION} {kind} {}", draft.id);
    if draft.id.contains(' ') || kind.contains(' ') {
        problems.push(smuggled("id", &draft.id));
    }
    for (key, value) in pairs {
        if key.contains([' ', '=']) || value.contains(' ') {
            problems.push(smuggled(key, value));
        }
        line.push(' ');
        line.push_str(key);
        line.push('=');
        line.push_str(value);
    }
    if let Some(tail) = draft
        .tail
        .as_deref()
        .map(str::trim_end)
        .filter(|tail| !tail.is_empty())
    {
        line.push_str(" // ");
        line.push_str(&tail.replace('\n', " "));
    }
    if problems.is_empty() {
        // `vocabulary` is what the line names itself when no profile was given, so this reads it by the same one
        let judge = Judge::of(profiles, profile).map_err(|p| vec![p])?;
        problems = judge.parse(&line).0.errors;
    }
    if problems.is_empty() {
        Ok(line)
    } else {
        Err(problems)
    }
}

/// Where a slot stands on the line; what the specification does not place comes last, in the order given.
fn place(vocabulary: &Profile, key: &str) -> usize {
    match key {
        "re" | "from" | "to" | "item" => usize::MAX,
        key => vocabulary.slot(key).unwrap_or(usize::MAX),
    }
}

fn smuggled(key: &str, value: &str) -> Problem {
    let text = format!("{key}: '{value}' has a space and would become more than one token");
    Problem::new(Code::Smuggled, text).slot(key).got(value)
}

fn bad_json(field: &str, rule: &str) -> Problem {
    Problem::new(Code::BadJson, format!("{field}: {rule}")).slot(field)
}

fn draft_of(value: &Json) -> Result<(Draft, &str), Problem> {
    let object = value
        .as_object()
        .ok_or_else(|| bad_json("message", "a message is a JSON object"))?;
    let field = |key: &str| -> Result<Option<String>, Problem> {
        match object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Array(_)) => Err(bad_json(key, "one value, not a list")),
            Some(v) => line_text(v).map(Some).ok_or_else(|| bad_json(key, "a text")),
        }
    };
    let text = |key: &str| {
        object
            .get(key)
            .and_then(Json::as_str)
            .ok_or_else(|| bad_json(key, "a text, and required"))
    };
    if let Some(v) = object.get("v")
        && v.as_str() != Some(VERSION)
    {
        return Err(Problem::new(Code::BadVersion, format!("version must be {VERSION}")).want(VERSION));
    }
    let kind = text("type")?;
    let mut draft = Draft::new(kind.parse().unwrap_or(Kind::Ho), text("id")?, "", "");
    draft.re = field("re")?;
    draft.from = field("from")?.unwrap_or_default();
    draft.to = field("to")?.unwrap_or_default();
    draft.item = field("item")?;
    draft.tail = field("tail")?;
    match object.get("slots") {
        None | Some(Json::Null) => {}
        Some(Json::Object(slots)) => {
            for (key, value) in slots.iter().filter(|(_, value)| !value.is_null()) {
                let text = line_text(value).filter(|text| !text.is_empty() || !value.is_array());
                let text =
                    text.ok_or_else(|| bad_json(key, "a text, a number, true, false, or a list of texts"))?;
                draft.slots.push((key.clone(), text));
            }
        }
        Some(_) => return Err(bad_json("slots", "an object")),
    }
    Ok((draft, kind))
}
