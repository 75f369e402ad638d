//! What the record proves about what was said. Pure.

use wilco_core::contract::LookupBy;
use wilco_core::{Contract, Frozen};

use super::bench::Effect;
use super::findings::{Stop, failed};
use crate::{Found, Job, Outcome, Report};

/// When an outcome is compared with the record first.
pub(super) const AT_ONCE: &str = "at once";

/// What the adapter said of the one sending, and the record agree. Whatever was said, there are never two.
pub(super) fn outcome(outcome: &Outcome, effects: &[Effect], when: &str) -> Result<(), Stop> {
    if effects.len() > 1 {
        return failed(format!(
            "{when} the record has {} effects of one act, and the adapter said {outcome:?}",
            effects.len()
        ));
    }
    match (outcome, effects) {
        (Outcome::Executed(_), [effect]) if effect.unfinished => failed(format!(
            "Executed, and {when} the record shows it unfinished: {effect:?}"
        )),
        (Outcome::Executed(report), [effect]) => reported(report, effect),
        // What may still be rejected may be gone in the end.
        (Outcome::Executed(report), _) if report.provisional && when != AT_ONCE => Ok(()),
        (Outcome::Executed(_), _) => failed(format!("Executed, and {when} the record has no effect")),
        // What was taken on may be refused in the end.
        (Outcome::Accepted(_), []) if when == AT_ONCE => {
            failed("Accepted, and at once the record has nothing of it")
        }
        (Outcome::Rejected(_) | Outcome::NotSent(_), [effect]) => {
            failed(format!("{outcome:?}, and {when} the record has {effect:?}"))
        }
        _ => Ok(()),
    }
}

/// What a lookup said agrees with the record as it was before or after it. `hidden`: it may not yet be visible.
pub(super) fn found(
    found: &Found,
    before: &[Effect],
    after: &[Effect],
    contract: &Contract,
    hidden: bool,
) -> Result<(), Stop> {
    let there = before.first().or(after.first());
    if before.len() > 1 || after.len() > 1 {
        return failed(format!(
            "the record has two effects of one act after a lookup: {after:?}"
        ));
    }
    if contract.lookup == LookupBy::None && !matches!(found, Found::Unknown(_)) {
        return failed(format!(
            "the contract says lookup = none, and a lookup says {found:?}"
        ));
    }
    match (found, there) {
        (Found::Executed(report), Some(_)) if !report.provisional && after.iter().all(|e| e.unfinished) => {
            failed(format!(
                "the lookup says Executed, and the record shows it unfinished or gone: {after:?}"
            ))
        }
        (Found::Executed(report), Some(_)) => {
            let last = after.last().cloned().unwrap_or_default();
            reported(report, &last)
        }
        (Found::Executed(_) | Found::Accepted(_) | Found::Exists(_), None) => failed(format!(
            "the lookup says {found:?}, and the record has nothing of it"
        )),
        (Found::Rejected(_), Some(effect)) if !before.is_empty() && !after.is_empty() => failed(format!(
            "the lookup says {found:?}, and the record has {effect:?}"
        )),
        (Found::Absent(_), Some(effect)) if !before.is_empty() && !hidden => failed(format!(
            "the lookup says {found:?}, and the record has {effect:?}"
        )),
        _ => Ok(()),
    }
}

/// Whether this lookup, after the settle window, says as much as the contract promises of one.
pub(super) fn concludes(found: &Found, effects: &[Effect], contract: &Contract) -> bool {
    let unfinished = effects.iter().any(|e| e.unfinished);
    match (contract.lookup, effects.is_empty()) {
        (LookupBy::None, _) | (LookupBy::Evidence, true) => true,
        (LookupBy::Evidence, false) => {
            matches!(found, Found::Executed(_) | Found::Accepted(_) | Found::Exists(_))
        }
        (_, true) => matches!(found, Found::Absent(_) | Found::Rejected(_)),
        (_, false) if unfinished => match found {
            Found::Executed(report) => report.provisional,
            other => matches!(other, Found::Accepted(_)),
        },
        (_, false) => matches!(found, Found::Executed(_)),
    }
}

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

/// Everything the ask names is stated, with its evidence.
pub(super) fn states_all(frozen: &Frozen, job: &Job) -> Result<(), Stop> {
    let stated: Vec<&str> = frozen.values.iter().map(|v| v.slot.as_str()).collect();
    let wanted: Vec<&str> = job.exec.iter().map(String::as_str).collect();
    if stated != wanted {
        return failed(format!(
            "resolve yields the slots {stated:?}; the ask names {wanted:?}"
        ));
    }
    if let Some(empty) = frozen
        .values
        .iter()
        .find(|v| v.value.is_empty() || v.evidence.is_empty())
    {
        return failed(format!("slot {}: its value or its evidence is empty", empty.slot));
    }
    if let Some((key, _)) = frozen.extra.iter().find(|(k, _)| !k.starts_with("x_")) {
        return failed(format!("extra slot {key} does not begin with x_"));
    }
    if let Some(slot) = frozen.carried.iter().find(|s| !wanted.contains(&s.as_str())) {
        return failed(format!("carried slot {slot} is no execution slot of the ask"));
    }
    Ok(())
}
