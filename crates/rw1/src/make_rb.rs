//! The readback a receiver that runs code sends: composed from the handoff as delivered, never retyped.

use std::collections::BTreeSet;

use crate::check::{DEFAULT_ECHO, is_level, readback_set};
use crate::digest::message_digest;
use crate::encode::{Draft, encode};
use crate::kind::Kind;
use crate::parse::Judge;
use crate::problem::Problem;
use crate::profile::Profiles;

/// What the receiver adds to the echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakeRb {
    /// The acceptance criteria it derived, as `key:value` texts.
    pub acc: Vec<String>,
    /// What it will produce.
    pub do_: Option<String>,
    /// When it expects to be done, `YYYYMMDD`.
    pub eta: Option<String>,
    /// Whether to add `h`, the fingerprint of the handoff.
    pub hash: bool,
}

impl Default for MakeRb {
    fn default() -> MakeRb {
        MakeRb {
            acc: Vec::new(),
            do_: None,
            eta: None,
            hash: true,
        }
    }
}

/// Builds the readback of a handoff: its `item`, `ask` and `due`, whatever its `rb=` names, under `rb=exec` the
/// execution slots it carries, and `h`. Execution slots that the receiver resolves for itself (an account on file)
/// are not in the handoff; it adds them.
///
/// # Errors
/// What is wrong with the handoff, or with the readback that would come of it.
pub fn make_rb(
    profiles: &Profiles,
    profile: Option<&str>,
    ho: &str,
    id: &str,
    with: &MakeRb,
) -> Result<String, Vec<Problem>> {
    let judge = Judge::of(profiles, profile).map_err(|p| vec![p])?;
    let (parsed, vocabulary) = judge.parse(ho);
    let ho = parsed.accepted()?;
    let wanted = readback_set(&ho);
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    if wanted.iter().any(|w| w == "all") {
        keys.extend(
            ho.slots
                .iter()
                .map(|(key, _)| key)
                .filter(|key| !matches!(*key, "rb" | "acc")),
        );
    } else {
        keys.extend(DEFAULT_ECHO);
        keys.extend(wanted.iter().map(AsRef::as_ref).filter(|w| !is_level(w)));
        if wanted.iter().any(|w| w == "exec") {
            let exec = ho.ask().and_then(|ask| vocabulary.exec(ask)).unwrap_or_default();
            keys.extend(exec.iter().map(String::as_str));
        }
    }
    let mut draft = Draft::new(Kind::Rb, id, ho.to, ho.from).re(ho.id);
    draft.item = ho.item.map(str::to_owned);
    for (key, value) in ho.slots.iter().filter(|(key, _)| keys.contains(key)) {
        draft.slots.push((key.to_owned(), value.show().into_owned()));
    }
    if !with.acc.is_empty() {
        set(&mut draft, "acc", with.acc.join("+"));
    }
    if let Some(produce) = &with.do_ {
        set(&mut draft, "do", produce.clone());
    }
    if let Some(p) = ho.text("p") {
        set(&mut draft, "p", p.to_owned());
    }
    if with.hash {
        set(&mut draft, "h", message_digest(&ho));
    }
    if let Some(eta) = &with.eta {
        set(&mut draft, "eta", eta.clone());
    }
    encode(profiles, profile, &draft)
}

/// What the receiver says for itself replaces an echo of the same slot.
fn set(draft: &mut Draft, key: &str, value: String) {
    draft.slots.retain(|(k, _)| k != key);
    draft.slots.push((key.to_owned(), value));
}
