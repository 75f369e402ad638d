//! A decoded message, borrowing from its line.

use crate::VERSION;
use crate::kind::Kind;
use crate::value::Value;

/// One message. It borrows every text from the line it was read from; to keep it, keep the line.
///
/// A message that came with errors is partial: `from` and `to` may be empty, and a value that could not be read is
/// the text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The type.
    pub kind: Kind,
    /// The message id, `<from>-<n>`.
    pub id: &'a str,
    /// The message this one replies to.
    pub re: Option<&'a str>,
    /// The sending agent.
    pub from: &'a str,
    /// The receiving agent.
    pub to: &'a str,
    /// The thing under discussion.
    pub item: Option<&'a str>,
    /// Every other slot, in the order of the line.
    pub slots: Slots<'a>,
    /// The free text after ` // `.
    pub tail: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// A slot's value; the header slots `re`, `from`, `to` and `item` are fields.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.slots.get(key)
    }

    /// A slot's text, when it has one (integers, booleans and lists have none).
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.slots.get(key).and_then(Value::as_text)
    }

    /// The texts of a list slot; none when it is missing.
    pub fn list(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.slots
            .get(key)
            .map(Value::items)
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_text)
    }

    /// The ask, where the message has one.
    pub fn ask(&self) -> Option<&'a str> {
        self.text("ask")
    }

    /// True when the handoff asks for this readback level, in whatever case it is written.
    pub fn asks_readback(&self, level: &str) -> bool {
        self.list("rb").any(|l| l.eq_ignore_ascii_case(level))
    }

    /// The JSON form (RW1 specification §6): header fields first, `null` where there is nothing.
    pub fn to_json(&self) -> serde_json::Value {
        let text = |s: &str| {
            if s.is_empty() {
                serde_json::Value::Null
            } else {
                s.into()
            }
        };
        let slots: serde_json::Map<String, serde_json::Value> = self
            .slots
            .iter()
            .map(|(k, v)| (k.to_owned(), v.to_json()))
            .collect();
        let mut out = serde_json::Map::new();
        out.insert("v".into(), VERSION.into());
        out.insert("type".into(), self.kind.as_str().into());
        out.insert("id".into(), self.id.into());
        out.insert("re".into(), self.re.map_or(serde_json::Value::Null, Into::into));
        out.insert("from".into(), text(self.from));
        out.insert("to".into(), text(self.to));
        out.insert(
            "item".into(),
            self.item.map_or(serde_json::Value::Null, Into::into),
        );
        out.insert("slots".into(), slots.into());
        out.insert(
            "tail".into(),
            self.tail.map_or(serde_json::Value::Null, Into::into),
        );
        out.into()
    }

    /// `item` and every slot, in the order in which the echo compares them.
    pub(crate) fn flat(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let item = self.item.map(|item| ("item", Value::Text(item)));
        item.into_iter()
            .chain(self.slots.iter().map(|(k, v)| (k, v.clone())))
    }

    /// `item` or a slot.
    pub(crate) fn flat_get(&self, key: &str) -> Option<std::borrow::Cow<'_, Value<'a>>> {
        use std::borrow::Cow;
        match key {
            "item" => self.item.map(|item| Cow::Owned(Value::Text(item))),
            key => self.slots.get(key).map(Cow::Borrowed),
        }
    }
}

/// The slots of a message, in the order of the line.
#[derive(Clone, Debug, Default)]
pub struct Slots<'a> {
    slots: Vec<(&'a str, Value<'a>)>,
    /// Positions sorted by key; built only for long lines, so that looking things up stays cheap for them too.
    by_key: Vec<u32>,
}

/// From here on an index pays.
const INDEX_FROM: usize = 40;

impl<'a> Slots<'a> {
    pub(crate) fn new(slots: Vec<(&'a str, Value<'a>)>) -> Slots<'a> {
        let mut by_key = Vec::new();
        if slots.len() >= INDEX_FROM {
            by_key = (0..slots.len() as u32).collect();
            by_key.sort_by_key(|&at| slots[at as usize].0);
        }
        Slots { slots, by_key }
    }

    /// The value of a slot.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        if self.by_key.is_empty() {
            return self.slots.iter().find(|(k, _)| *k == key).map(|(_, v)| v);
        }
        let at = self
            .by_key
            .binary_search_by_key(&key, |&at| self.slots[at as usize].0)
            .ok()?;
        Some(&self.slots[self.by_key[at] as usize].1)
    }

    /// True when the slot is there.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values, in the order of the line.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &Value<'a>)> {
        self.slots.iter().map(|(k, v)| (*k, v))
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl PartialEq for Slots<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.slots == other.slots
    }
}

impl Eq for Slots<'_> {}
