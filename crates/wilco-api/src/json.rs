//! The JSON form of the messages: the fields of the proto files under the same names, states in lower case.
//!
//! There is one definition for the JSON API and for `wilco --json`: serde on the generated types, with the three
//! exceptions below.

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserializer, Serializer};
use serde_json::{Map, Value};

/// `Act.state` as a lower-case word.
pub mod state {
    use super::*;
    use crate::convert::{state_from_word, state_word};
    use crate::v1::State;

    /// Writes the word.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(state: &i32, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(state_word(State::try_from(*state).unwrap_or_default()))
    }

    /// Reads the word.
    ///
    /// # Errors
    /// A word that names no state.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<i32, D::Error> {
        let word: String = serde::Deserialize::deserialize(d)?;
        state_from_word(&word)
            .map(i32::from)
            .ok_or_else(|| de::Error::custom(format!("`{}` is not a state", shorten(&word))))
    }
}

/// `SettleRequest.outcome` as `done` or `not_done`.
pub mod outcome {
    use super::*;
    use crate::v1::settle_request::Outcome;

    /// Writes the word.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(outcome: &i32, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(match Outcome::try_from(*outcome) {
            Ok(Outcome::Done) => "done",
            Ok(Outcome::NotDone) => "not_done",
            _ => "",
        })
    }

    /// Reads the word.
    ///
    /// # Errors
    /// Any other word.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<i32, D::Error> {
        let word: String = serde::Deserialize::deserialize(d)?;
        match word.as_str() {
            "done" => Ok(Outcome::Done.into()),
            "not_done" => Ok(Outcome::NotDone.into()),
            _ => Err(de::Error::custom(format!(
                "`{}` is neither `done` nor `not_done`",
                shorten(&word)
            ))),
        }
    }
}

/// A JSON object that the proto carries as text (`PrepareRequest.record`): in JSON it stands as the object it is. The
/// text form is understood as well, and `null` is none.
pub mod object {
    use super::*;

    /// Writes the object; nothing given is `null`.
    ///
    /// # Errors
    /// Text that is not a JSON object, which no reader of ours lets through.
    pub fn serialize<S: Serializer>(text: &str, s: S) -> Result<S::Ok, S::Error> {
        if text.is_empty() {
            return s.serialize_none();
        }
        let map: Map<String, Value> = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
        serde::Serialize::serialize(&map, s)
    }

    /// Reads the object into its text. A key given twice is refused: which of the two was approved is not ours to
    /// guess.
    ///
    /// # Errors
    /// Anything but an object, its text, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
        d.deserialize_any(ObjectText)
    }
}

struct ObjectText;

impl<'de> Visitor<'de> for ObjectText {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object of slot values")
    }

    fn visit_unit<E: de::Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<String, A::Error> {
        let mut map = Map::new();
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!(
                    "the key `{}` is given twice",
                    shorten(&key)
                )));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map).to_string())
    }
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use crate::v1::{Act, PrepareRequest, SettleRequest, State, settle_request::Outcome};

    #[test]
    fn states_are_lower_case_words() {
        let act = Act {
            state: State::InDoubt.into(),
            ..Act::default()
        };
        let json = serde_json::to_value(&act).expect("serialises");
        assert_eq!(json["state"], "in_doubt");
        assert_eq!(json["act_id"], "");
        let back: Act = serde_json::from_value(json).expect("reads back");
        assert_eq!(back, act);
        assert!(serde_json::from_str::<Act>(r#"{"state":"IN_DOUBT"}"#).is_err());
    }

    #[test]
    fn a_record_is_an_object_and_keeps_its_order() {
        let read = |text: &str| serde_json::from_str::<PrepareRequest>(text);
        let request = read(r#"{"ho":"x","record":{"sup":"marlow","amt":"5400.00"}}"#).expect("reads");
        assert_eq!(request.record, r#"{"sup":"marlow","amt":"5400.00"}"#);
        assert_eq!(read(r#"{"ho":"x","record":null}"#).expect("reads").record, "");
        assert_eq!(read(r#"{"record":"{}"}"#).expect("reads").record, "{}");
        for bad in [
            r#"{"record":{"sup":"a","sup":"b"}}"#,
            r#"{"record":[1]}"#,
            r#"{"record":7}"#,
            r#"{"ho":"x","ho":"y"}"#,
            r#"{"hoo":"x"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_outcome_is_done_or_not_done() {
        let read = |text: &str| serde_json::from_str::<SettleRequest>(text);
        let request = read(r#"{"outcome":"not_done","evidence":"seen"}"#).expect("reads");
        assert_eq!(request.outcome, i32::from(Outcome::NotDone));
        assert!(read(r#"{"outcome":"maybe"}"#).is_err());
    }
}
