//! Check 1, before sending: the handoff against the record it was built from (RW1 specification §5.3).

use serde_json::Value as Json;

use super::{expect_kind, mismatch, take};
use crate::encode::line_text;
use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Judge;
use crate::problem::{Checked, Code, Problem};
use crate::profile::{Profile, Profiles};

/// An approved record: slots (and `to`, `item`, `ask`) with their values as they stand on a line, in order.
pub type Record = serde_json::Map<String, Json>;

/// Compares a handoff with the record: every value the record holds stands in the handoff unchanged, and an ask that
/// cannot be undone asks for an execution readback. No problems means: send it.
pub fn check_ho(profiles: &Profiles, profile: Option<&str>, ho: &str, record: &Record) -> Checked {
    let mut checked = Checked::default();
    let judge = match Judge::of(profiles, profile) {
        Ok(judge) => judge,
        Err(problem) => {
            return Checked {
                problems: vec![problem],
                notes: Vec::new(),
            };
        }
    };
    let (parsed, vocabulary) = judge.parse(ho);
    if let Some(ho) = take(&mut checked, "HO", parsed) {
        against_record(&mut checked, vocabulary, &ho, record);
    }
    checked
}

pub(super) fn against_record(checked: &mut Checked, vocabulary: &Profile, ho: &Message<'_>, record: &Record) {
    expect_kind(checked, "first", ho, Kind::Ho);
    if !checked.ok() {
        return;
    }
    for (key, value) in record {
        let shown;
        // a text is what most records hold; it is compared where it lies
        let want = match value {
            Json::String(text) => Some(text.as_str()),
            other => {
                shown = line_text(other);
                shown.as_deref()
            }
        };
        let got = match key.as_str() {
            "from" => Some(ho.from.into()),
            "to" => Some(ho.to.into()),
            "item" => ho.item.map(Into::into),
            key => ho.get(key).map(|v| v.show()),
        };
        let as_json;
        let wanted = match want {
            Some(want) => want,
            // null or an object stands on no line, so it equals none
            None => {
                as_json = value.to_string();
                as_json.as_str()
            }
        };
        match got {
            None => checked.problem(
                Problem::new(
                    Code::RecordMissing,
                    format!("record: HO does not carry {key} (record {key}={wanted})"),
                )
                .slot(key)
                .want(wanted),
            ),
            Some(got) if want != Some(&*got) => {
                let text = format!("record: {key} mismatch: record {wanted} vs HO {got}");
                checked.problem(mismatch(Code::RecordMismatch, key, text, wanted, &got));
            }
            Some(_) => {}
        }
    }
    let ask = ho.ask().unwrap_or_default();
    let Some(exec) = vocabulary.exec(ask) else { return };
    if !ho.asks_readback("exec") {
        let text = format!(
            "{ask} cannot be undone under profile {}: the HO must ask rb=exec",
            vocabulary.name()
        );
        checked.problem(Problem::new(Code::ExecNotAsked, text).slot("rb").want("exec"));
    }
    for key in exec.iter().filter(|key| !record.contains_key(key.as_str())) {
        match ho.get(key) {
            Some(value) => {
                let text = format!(
                    "{key}={} is not in the record, so nothing confirms it",
                    value.show()
                );
                checked.note(Problem::new(Code::NotInRecord, text).slot(key).got(value.show()));
            }
            None => {
                let text =
                    format!("{key} is left to the receiver: neither HO nor record has it, the readback will");
                checked.note(Problem::new(Code::LeftToReceiver, text).slot(key));
            }
        }
    }
}
