//! The order as it travels: the frozen bytes, and what the counterparty reads in them. Pure.

use serde::{Deserialize, Serialize};
use wilco_core::{ActId, Timestamp};

/// What the frozen request holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    /// Our reference.
    pub reference: ActId,
    pub profile: String,
    pub ask: String,
    /// When it was prepared: a counterparty with `refused_after_s` counts from here.
    pub issued: Timestamp,
    /// Slots and values, in the profile's order.
    pub values: Vec<(String, String)>,
    /// For an `UNDO`: the act to reverse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<ActId>,
}

impl Body {
    /// The bytes.
    pub fn write(&self) -> String {
        // Strings, numbers and lists of them: there is nothing in here that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the bytes.
    pub fn read(text: &str) -> Option<Body> {
        serde_json::from_str(text).ok()
    }
}

/// The value of a slot in a list of pairs.
pub(crate) fn value<'a>(values: &'a [(String, String)], slot: &str) -> Option<&'a str> {
    values.iter().find(|(s, _)| s == slot).map(|(_, v)| v.as_str())
}

/// An amount of a line (`5400.00`) in hundredths; `None` if it is none. Never a float.
pub(crate) fn hundredths(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    if !digits(whole, 18) || !digits(fraction, 2) || fraction.len() != 2 {
        return None;
    }
    format!("{whole}{fraction}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_wire() {
        let body = Body {
            reference: ActId::new(Timestamp(5), [1; 10]),
            profile: "pay".to_owned(),
            ask: "PAY".to_owned(),
            issued: Timestamp(7),
            values: vec![("amt".to_owned(), "5400.00".to_owned())],
            reverses: None,
        };
        assert_eq!(Body::read(&body.write()), Some(body.clone()));
        assert!(!body.write().contains("reverses"));
        assert_eq!(Body::read("{}"), None);
    }

    #[test]
    fn amounts_are_exact() {
        assert_eq!(hundredths("5400.00"), Some(540_000));
        assert_eq!(hundredths("0.01"), Some(1));
        for bad in ["5400", "5400.0", "-1.00", "٥.00", "", ".00", "1e3.00"] {
            assert_eq!(hundredths(bad), None, "{bad}");
        }
    }
}
