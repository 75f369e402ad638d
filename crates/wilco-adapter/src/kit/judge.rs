//! What the record proves about what was said. Pure.

use wilco_core::Frozen;

use super::bench::Effect;
use super::findings::{Stop, failed};
use crate::Report;

/// There is no effect.
pub(super) fn nothing(effects: &[Effect], when: &str) -> Result<(), Stop> {
    if effects.is_empty() {
        Ok(())
    } else {
        failed(format!(
            "{when} the record has {} effects, not none: {effects:?}",
            effects.len()
        ))
    }
}

/// There is exactly one.
pub(super) fn one(effects: &[Effect], when: &str) -> Result<Effect, Stop> {
    match effects {
        [effect] => Ok(effect.clone()),
        _ => failed(format!(
            "{when} the record has {} effects, not one: {effects:?}",
            effects.len()
        )),
    }
}

/// The whole record has grown by so many effects, where it can be counted.
pub(super) fn grew_by(by: usize, before: Option<usize>, after: Option<usize>) -> Result<(), Stop> {
    match (before, after) {
        (Some(before), Some(after)) if after != before + by => failed(format!(
            "the whole record held {before} effects and now holds {after}; {by} were meant"
        )),
        _ => Ok(()),
    }
}

/// Every value the adapter reports is the record's.
pub(super) fn reported(report: &Report, effect: &Effect) -> Result<(), Stop> {
    for (slot, value) in &report.values {
        match shown(effect, slot) {
            Some(recorded) if recorded == value => {}
            Some(recorded) => {
                return failed(format!(
                    "slot {slot} is reported as {value:?}; the record has {recorded:?}"
                ));
            }
            None => {
                return failed(format!(
                    "slot {slot} is reported as {value:?}; the record does not show it, so who said so?"
                ));
            }
        }
    }
    match (&report.receipt, &effect.receipt) {
        (Some(told), Some(recorded)) if told != recorded => failed(format!(
            "the receipt is reported as {told:?}; the record has {recorded:?}"
        )),
        _ => Ok(()),
    }
}

/// Every frozen value that the record shows is the one that was stated.
pub(super) fn as_frozen(effect: &Effect, frozen: &Frozen) -> Result<(), Stop> {
    for value in &frozen.values {
        let recorded = shown(effect, &value.slot);
        if recorded.is_some_and(|r| r != value.value) {
            return failed(format!(
                "slot {} was stated as {:?}; the record has {recorded:?}",
                value.slot, value.value
            ));
        }
    }
    if effect.values.is_empty() {
        return failed("the bench shows no value of the effect: there is nothing to judge by");
    }
    Ok(())
}

fn shown<'a>(effect: &'a Effect, slot: &str) -> Option<&'a str> {
    effect
        .values
        .iter()
        .find(|(s, _)| s == slot)
        .map(|(_, v)| v.as_str())
}
