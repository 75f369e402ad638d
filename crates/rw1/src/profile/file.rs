//! A profile's file as JSON, and the words for what is wrong with it.

use serde_json::{Map, Value};

const MAX_TEXT_BYTES: usize = 1 << 20;

/// A text that is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The name is not one a line can carry.
    #[error(
        "profile name '{name}': a name is 1 to 32 lowercase letters, digits, - and _, and begins with a letter or digit"
    )]
    Name {
        /// The name given.
        name: String,
    },
    /// Two texts have one name.
    #[error("profile {name} is given twice")]
    Twice {
        /// The name given twice.
        name: String,
    },
    /// Too many texts.
    #[error("{count} profiles; at most 256 are loaded")]
    TooMany {
        /// How many were given.
        count: usize,
    },
    /// The text is not JSON, or too long.
    #[error("profile {name} is not read: {why}")]
    Json {
        /// Which profile.
        name: String,
        /// What the reader said.
        why: String,
    },
    /// A field has the wrong shape or breaks a rule.
    #[error("profile {name}, {field}: {rule}")]
    Rule {
        /// Which profile.
        name: String,
        /// The field, with dots: `slots.amt.type`.
        field: String,
        /// The rule it breaks.
        rule: String,
    },
}

/// A profile's JSON object, with the words for what is wrong with it.
pub(super) struct File<'a> {
    name: &'a str,
    object: Map<String, Value>,
    empty: Map<String, Value>,
}

impl<'a> File<'a> {
    pub(super) fn read(name: &'a str, text: &str) -> Result<File<'a>, ProfileError> {
        let fail = |why: String| ProfileError::Json {
            name: name.to_owned(),
            why,
        };
        if text.len() > MAX_TEXT_BYTES {
            return Err(fail(format!("{} bytes; at most {MAX_TEXT_BYTES}", text.len())));
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(File {
                name,
                object,
                empty: Map::new(),
            }),
            Ok(_) => Err(fail("a profile is a JSON object".into())),
            Err(e) => Err(fail(e.to_string())),
        }
    }

    pub(super) fn rule(&self, field: &str, rule: impl Into<String>) -> ProfileError {
        ProfileError::Rule {
            name: self.name.to_owned(),
            field: field.to_owned(),
            rule: rule.into(),
        }
    }

    pub(super) fn only(&self, known: &[&str]) -> Result<(), ProfileError> {
        match self
            .object
            .keys()
            .find(|k| !known.contains(&k.as_str()) && !k.starts_with("x_"))
        {
            None => Ok(()),
            Some(key) => Err(self.rule(
                key,
                format!(
                    "no such field; known are {} and anything that begins with x_",
                    known.join(" ")
                ),
            )),
        }
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.object.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ProfileError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.clone())),
            Some(_) => Err(self.rule(key, "a text")),
        }
    }

    pub(super) fn object(&self, key: &str) -> Result<&Map<String, Value>, ProfileError> {
        match self.value(key) {
            None => Ok(&self.empty),
            Some(Value::Object(map)) => Ok(map),
            Some(_) => Err(self.rule(key, "an object")),
        }
    }

    pub(super) fn pairs(
        &self,
        field: &str,
        value: Option<&Value>,
    ) -> Result<Vec<(String, String)>, ProfileError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let map = value
            .as_object()
            .ok_or_else(|| self.rule(field, "an object of texts"))?;
        map.iter()
            .map(|(k, v)| match v.as_str() {
                Some(v) => Ok((k.clone(), v.to_owned())),
                None => Err(self.rule(&format!("{field}.{k}"), "a text")),
            })
            .collect()
    }

    pub(super) fn strings(&self, field: &str, value: Option<&Value>) -> Result<Vec<String>, ProfileError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let list = value
            .as_array()
            .ok_or_else(|| self.rule(field, "a list of texts"))?;
        list.iter()
            .map(|v| {
                v.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.rule(field, "a list of texts"))
            })
            .collect()
    }
}
