//! The canonical form of a message, and the fingerprint `h=` taken over it.

use sha2::{Digest as _, Sha256};

use crate::message::Message;
use crate::parse::Judge;
use crate::problem::Problem;
use crate::profile::Profiles;
use crate::value::Value;
use crate::{VERSION, json};

/// The canonical form (RW1 specification §5.2): the JSON form with keys sorted, without white space, in UTF-8, lists
/// in the order written.
pub fn canonical(message: &Message<'_>) -> String {
    // The nine header keys sort as written here; slot keys are ASCII, so byte order is code point order.
    let mut out = String::with_capacity(1024);
    out.push_str("{\"from\":");
    json::text_or_null(&mut out, message.from);
    out.push_str(",\"id\":");
    json::text(&mut out, message.id);
    out.push_str(",\"item\":");
    json::text_or_null(&mut out, message.item.unwrap_or_default());
    out.push_str(",\"re\":");
    json::text_or_null(&mut out, message.re.unwrap_or_default());
    out.push_str(",\"slots\":{");
    let slots = message.slots.iter();
    let mut slots: Vec<(u64, &str, &Value<'_>)> = slots.map(|(k, v)| (start_of(k), k, v)).collect();
    slots.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    for (n, (_, key, value)) in slots.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        json::text(&mut out, key);
        out.push(':');
        json::value(&mut out, value, ",");
    }
    out.push_str("},\"tail\":");
    match message.tail {
        Some(tail) => json::text(&mut out, tail),
        None => out.push_str("null"),
    }
    out.push_str(",\"to\":");
    json::text_or_null(&mut out, message.to);
    out.push_str(",\"type\":");
    json::text(&mut out, message.kind.as_str());
    out.push_str(",\"v\":");
    json::text(&mut out, VERSION);
    out.push('}');
    out
}

/// The first bytes of a key as a number that sorts as the key does: most keys are told apart by them alone.
fn start_of(key: &str) -> u64 {
    let places = (0..8).rev().map(|place| 8 * place);
    let start = key.bytes().zip(places);
    start.fold(0, |start, (byte, place)| start | u64::from(byte) << place)
}

/// The fingerprint of a line: the first 12 hex digits of SHA-256 over its canonical form. It is 48 bits long: good
/// against accidents, no key and no authorisation.
///
/// # Errors
/// What is wrong with the line.
pub fn digest(profiles: &Profiles, profile: Option<&str>, line: &str) -> Result<String, Vec<Problem>> {
    let judge = Judge::of(profiles, profile).map_err(|p| vec![p])?;
    judge
        .parse(line)
        .0
        .accepted()
        .map(|message| message_digest(&message))
}

/// The fingerprint of a message: the `h=` of its readback.
pub fn message_digest(message: &Message<'_>) -> String {
    let hash = Sha256::digest(canonical(message).as_bytes());
    hex(hash.get(..6).unwrap_or_default())
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(2 * bytes.len());
    for b in bytes {
        out.push(char::from(DIGITS[usize::from(b >> 4)]));
        out.push(char::from(DIGITS[usize::from(b & 15)]));
    }
    out
}
