//! Check 3, after the act: the done report against the plan (RW1 specification §5.3).

use super::{expect_kind, instant, mismatch, rb, take};
use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Judge;
use crate::problem::{Checked, Code, Problem};
use crate::profile::{Profile, Profiles};
use crate::value::Value;

/// Compares a done report with the plan: the handoff's values, and the readback's where the handoff left a slot to the
/// receiver. The readback counts only if it passes its own check, judged as of `at`, the instant it was confirmed; a
/// true report therefore stays true however late it is looked at. With `at: None` expiry is not judged.
pub fn check_dn(
    profiles: &Profiles,
    profile: Option<&str>,
    ho: &str,
    dn: &str,
    rb: Option<&str>,
    at: Option<&str>,
) -> Checked {
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
    let at = instant(&mut checked, "at", at);
    let (ho, vocabulary) = judge.parse(ho);
    let judge = judge.falling_back(vocabulary);
    let ho = take(&mut checked, "HO", ho);
    let dn = take(&mut checked, "DN", judge.parse(dn).0);
    let (Some(ho), Some(dn)) = (ho, dn) else {
        return checked;
    };
    expect_kind(&mut checked, "first", &ho, Kind::Ho);
    expect_kind(&mut checked, "second", &dn, Kind::Dn);
    if !checked.ok() {
        return checked;
    }
    receipt(&mut checked, &ho, &dn);
    let mut plan = Plan { ho: &ho, rb: None };
    let rb_message;
    if let Some(line) = rb {
        let before = checked.problems.len();
        let Some(message) = take(&mut checked, "RB", judge.parse(line).0) else {
            return checked;
        };
        expect_kind(&mut checked, "third", &message, Kind::Rb);
        if checked.problems.len() > before {
            return checked;
        }
        let mut readback = Checked::default();
        rb::tiers(&mut readback, vocabulary, &ho, &message, None, at);
        if let Some(first) = readback.problems.first() {
            let text = format!("the readback fails its own check and is no plan: {}", first.text);
            let slot = first.slot.clone();
            checked.problem(Problem {
                slot,
                ..Problem::new(Code::ReadbackFailed, text)
            });
            return checked;
        }
        rb_message = message;
        plan.rb = Some(&rb_message);
    }
    executed(&mut checked, vocabulary, &plan, &dn);
    checked
}

fn receipt(checked: &mut Checked, ho: &Message<'_>, dn: &Message<'_>) {
    let re = dn.re.unwrap_or_default();
    if re != ho.id {
        let text = format!("receipt: DN re={re} does not point at HO id {}", ho.id);
        checked.problem(mismatch(Code::Receipt, "re", text, ho.id, re));
    }
    if dn.from != ho.to || dn.to != ho.from {
        let text = format!(
            "receipt: DN must come from {} to {}; this one is from={} to={}",
            ho.to, ho.from, dn.from, dn.to
        );
        let (slot, want, got) = if dn.from != ho.to {
            ("from", ho.to, dn.from)
        } else {
            ("to", ho.from, dn.to)
        };
        checked.problem(mismatch(Code::Receipt, slot, text, want, got));
    }
    if dn.item != ho.item {
        let (want, got) = (ho.item.unwrap_or_default(), dn.item.unwrap_or_default());
        let text = format!("receipt: DN item {got} is not the HO's {want}");
        checked.problem(mismatch(Code::Receipt, "item", text, want, got));
    }
}

/// The values the act was to be done with.
struct Plan<'m, 'a> {
    ho: &'m Message<'a>,
    rb: Option<&'m Message<'a>>,
}

impl<'m, 'a> Plan<'m, 'a> {
    /// The readback's value where it has one, otherwise the handoff's; never what either says about the readback itself.
    fn get(&self, key: &str) -> Option<&'m Value<'a>> {
        let from_rb = self
            .rb
            .filter(|_| !matches!(key, "h" | "eta" | "acc" | "do" | "not" | "asm" | "p" | "exp"));
        let from_ho = Some(self.ho).filter(|_| !matches!(key, "rb" | "acc" | "keys" | "p"));
        from_rb
            .and_then(|rb| rb.get(key))
            .or_else(|| from_ho.and_then(|ho| ho.get(key)))
    }
}

fn executed(checked: &mut Checked, vocabulary: &Profile, plan: &Plan<'_, '_>, dn: &Message<'_>) {
    let ask = plan.ho.ask().unwrap_or("?");
    let out = dn.text("out").unwrap_or_default();
    let exec = vocabulary.exec(ask);
    if exec.is_none() {
        let text = format!("no execution slots are named for {ask}; only what the DN carries is compared");
        checked.note(Problem::new(Code::NoExecSlots, text).slot("ask").got(ask));
        for (key, got) in dn.slots.iter() {
            if let Some(want) = plan.get(key) {
                compare(checked, key, want, got);
            }
        }
    }
    let exec_slots = exec.unwrap_or_default();
    // What an UNDO reverses has slots of its own; the plan says which.
    let of_reversed = (ask == "UNDO").then(|| vocabulary.undo_slots());
    let planned = of_reversed
        .into_iter()
        .flatten()
        .filter(|key| !exec_slots.contains(key) && plan.get(key).is_some());
    for key in exec_slots.iter().chain(planned) {
        match (plan.get(key), dn.get(key)) {
            (want, None) if matches!(out, "OK" | "PARTIAL") => {
                let text = format!("executed: DN does not carry {key}, with which the act was done");
                let mut finding = Problem::new(Code::DoneMissing, text).slot(key);
                finding.want = want.map(|want| want.show().into_owned());
                if out == "OK" {
                    checked.problem(finding)
                } else {
                    checked.note(finding)
                }
            }
            (_, None) => {}
            (Some(want), Some(got)) => compare(checked, key, want, got),
            (None, Some(got)) => {
                let got = got.show();
                let text = format!(
                    "executed: {key}={got} was resolved by the receiver and no plan holds it; check it against the record"
                );
                checked.note(Problem::new(Code::DoneResolved, text).slot(key).got(got));
            }
        }
    }
    if out == "NOOP" && exec.unwrap_or_default().iter().any(|key| dn.slots.contains(key)) {
        let text = "out=NOOP says nothing ran, yet the DN carries execution values";
        checked.note(Problem::new(Code::NoopWithValues, text).slot("out").got("NOOP"));
    }
}

fn compare(checked: &mut Checked, key: &str, want: &Value<'_>, got: &Value<'_>) {
    if want != got {
        let (want, got) = (want.show(), got.show());
        let text = format!("executed: {key} mismatch: plan {want} vs DN {got}");
        checked.problem(mismatch(Code::DoneMismatch, key, text, &want, &got));
    }
}
