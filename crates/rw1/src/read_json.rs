//! Reading JSON that decides something: a key given twice is refused, at any depth. Which of two amounts was approved
//! is not a reader's to guess, and readers differ in which one they take.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::check::Record;
use crate::problem::{Code, Problem};

/// Reads a JSON text.
///
/// # Errors
/// The text is not JSON, or has an object with a key given twice.
pub fn read_json(text: &str) -> Result<Value, Problem> {
    match serde_json::from_str(text) {
        Ok(Once(value)) => Ok(value),
        Err(e) => Err(Problem::new(Code::BadJson, format!("not JSON to rely on: {e}"))),
    }
}

/// Reads an approved record: a JSON object of slots and their values as they stand on a line.
///
/// # Errors
/// The text is not JSON, not an object, or has a key given twice.
pub fn read_record(text: &str) -> Result<Record, Problem> {
    match read_json(text)? {
        Value::Object(record) => Ok(record),
        _ => {
            let text = "a record is a JSON object of slots and their values as they stand on a line";
            Err(Problem::new(Code::BadJson, text).slot("record"))
        }
    }
}

/// A value in which no object has a key twice.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Once, D::Error> {
        d.deserialize_any(Reader).map(Once)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E: de::Error>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Once(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Once(value) = map.next_value()?;
            if object.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format_args!("the key '{key}' is given twice")));
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_once_is_read_as_it_is() {
        let text = r#"{"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"a": {}}}"#;
        assert_eq!(read_json(text).ok(), serde_json::from_str(text).ok());
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for text in [
            r#"{"amt": "5400.00", "amt": "5100.00"}"#,
            r#"[{"a": {"b": 1, "c": 2, "b": 1}}]"#,
        ] {
            let problem = read_json(text).expect_err(text);
            assert!(problem.text.contains("given twice"), "{problem}");
        }
        assert!(read_json("{} {}").is_err());
        assert!(read_json(&"[".repeat(10_000)).is_err());
        assert!(read_record("[]").is_err());
    }
}
