//! Check 2, before confirming: a readback, or a tool's statement, against the handoff (RW1 specification §5.1 to §5.3).
//!
//! Five tiers: receipt, integrity, echo, comprehension, execution; and between the first two, expiry.

use std::collections::BTreeSet;

use super::acc::{self, Criterion};
use super::{DEFAULT_ECHO, expect_kind, has_passed, instant, is_level, lower, mismatch, readback_set, take};
use crate::digest::message_digest;
use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Judge;
use crate::problem::{Checked, Code, Problem};
use crate::profile::{Profile, Profiles};
use crate::value::Value;

/// What the sender knows besides the two lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct RbCheck<'a> {
    /// The acceptance criteria it kept to itself, as `key:value` texts. `None`: those on the handoff count, if any.
    pub expect_acc: Option<&'a [String]>,
    /// The instant to judge expiry as of, `YYYYMMDDTHHMMZ`. `None`: expiry is not judged.
    pub now: Option<&'a str>,
}

/// Checks a readback in five tiers. No problems means: the readback passes, and what it states may be confirmed.
pub fn check_rb(
    profiles: &Profiles,
    profile: Option<&str>,
    ho: &str,
    rb: &str,
    with: RbCheck<'_>,
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
    let now = instant(&mut checked, "now", with.now);
    let (ho, vocabulary) = judge.parse(ho);
    let (rb, _) = judge.falling_back(vocabulary).parse(rb);
    let ho = take(&mut checked, "HO", ho);
    let rb = take(&mut checked, "RB", rb);
    if let (Some(ho), Some(rb)) = (ho, rb) {
        expect_kind(&mut checked, "first", &ho, Kind::Ho);
        expect_kind(&mut checked, "second", &rb, Kind::Rb);
        if checked.ok() {
            tiers(&mut checked, vocabulary, &ho, &rb, with.expect_acc, now);
        }
    }
    checked
}

/// The tiers, over an HO and an RB that were accepted.
pub(super) fn tiers(
    checked: &mut Checked,
    vocabulary: &Profile,
    ho: &Message<'_>,
    rb: &Message<'_>,
    expect_acc: Option<&[String]>,
    now: Option<&str>,
) {
    receipt(checked, ho, rb);
    expiry(checked, ho, rb, now);
    integrity(checked, ho, rb);
    let wanted = readback_set(ho);
    let asked = |level: &str| wanted.iter().any(|w| w == level);
    let named: Vec<&str> = wanted
        .iter()
        .map(AsRef::as_ref)
        .filter(|w| !is_level(w))
        .collect();
    echo(checked, ho, rb, asked("all"), &named);
    if asked("acc") || asked("plan") {
        comprehension(checked, vocabulary, ho, rb, expect_acc, asked("plan"));
    }
    if asked("exec") {
        execution(checked, vocabulary, ho, rb);
    }
}

fn receipt(checked: &mut Checked, ho: &Message<'_>, rb: &Message<'_>) {
    let re = rb.re.unwrap_or_default();
    if re != ho.id {
        let text = format!("tier1 receipt: RB re={re} does not point at HO id {}", ho.id);
        checked.problem(mismatch(Code::Receipt, "re", text, ho.id, re));
    }
    if rb.from != ho.to || rb.to != ho.from {
        let text = format!(
            "tier1 receipt: RB must come from {} to {}; this one is from={} to={}",
            ho.to, ho.from, rb.from, rb.to
        );
        let (slot, want, got) = if rb.from != ho.to {
            ("from", ho.to, rb.from)
        } else {
            ("to", ho.from, rb.to)
        };
        checked.problem(mismatch(Code::Receipt, slot, text, want, got));
    }
}

fn expiry(checked: &mut Checked, ho: &Message<'_>, rb: &Message<'_>, now: Option<&str>) {
    let (ho_exp, rb_exp) = (ho.text("exp"), rb.text("exp"));
    let clock = now.unwrap_or_default();
    if has_passed(ho_exp, now) {
        let exp = ho_exp.unwrap_or_default();
        let text = format!("expired: the HO expired at {exp} (now {clock}); a new HO is needed");
        checked.problem(mismatch(Code::Expired, "exp", text, exp, clock));
    }
    if has_passed(rb_exp, now) {
        let exp = rb_exp.unwrap_or_default();
        let text =
            format!("expired: the statement expired at {exp} (now {clock}); it must be prepared again");
        checked.problem(mismatch(Code::Expired, "exp", text, exp, clock));
    }
    if let (Some(limit), Some(exp)) = (ho_exp, rb_exp)
        && exp > limit
    {
        let text = format!("expired: the statement's exp={exp} outlives the HO's exp={limit}");
        checked.problem(mismatch(Code::Outlives, "exp", text, limit, exp));
    }
}

fn integrity(checked: &mut Checked, ho: &Message<'_>, rb: &Message<'_>) {
    let Some(h) = rb.text("h") else { return };
    let want = message_digest(ho);
    if h != want {
        let text = format!("tier2 integrity: h={h}, but the HO's digest is {want}");
        checked.problem(mismatch(Code::Integrity, "h", text, &want, h));
    }
}

fn echo(checked: &mut Checked, ho: &Message<'_>, rb: &Message<'_>, all: bool, named: &[&str]) {
    let mut compare = |key: &str, want: &Value<'_>| match rb.flat_get(key) {
        None => {
            let want = want.show();
            let text = format!("tier3 echo: RB does not echo {key} (HO {key}={want})");
            checked.problem(Problem::new(Code::EchoMissing, text).slot(key).want(want));
        }
        Some(got) if *got != *want => {
            let (want, got) = (want.show(), got.show());
            let text = format!("tier3 echo: {key} mismatch: HO {want} vs RB {got}");
            checked.problem(mismatch(Code::EchoMismatch, key, text, &want, &got));
        }
        Some(_) => {}
    };
    if all {
        // exp is never echoed, and acc is the fourth tier's
        for (key, want) in ho
            .flat()
            .filter(|(key, _)| !matches!(*key, "rb" | "p" | "acc" | "exp"))
        {
            compare(key, &want);
        }
        return;
    }
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for key in DEFAULT_ECHO.iter().chain(named) {
        if done.insert(key)
            && let Some(want) = ho.flat_get(key)
        {
            compare(key, &want);
        }
    }
}

fn comprehension(
    checked: &mut Checked,
    vocabulary: &Profile,
    ho: &Message<'_>,
    rb: &Message<'_>,
    expect_acc: Option<&[String]>,
    plan: bool,
) {
    let criteria = vocabulary.criteria();
    let sent: Option<Vec<&str>> = ho.slots.contains("acc").then(|| ho.list("acc").collect());
    let kept: Option<Vec<&str>> = expect_acc.map(|acc| acc.iter().map(String::as_str).collect());
    let excluded: Vec<&str> = rb.list("not").collect();
    if rb.get("acc").is_none_or(Value::is_empty) {
        let level = if plan { "plan" } else { "acc" };
        let text = format!("tier4 comprehension: HO asked rb={level} and RB carries no acc=");
        checked.problem(Problem::new(Code::AccMissing, text).slot("acc"));
    } else {
        match kept.as_ref().or(sent.as_ref()) {
            None => {
                let text = "tier4 comprehension: no criteria to compare with, neither kept back nor on the HO; acc= is taken as it is";
                checked.note(Problem::new(Code::AccNotCompared, text).slot("acc"));
            }
            Some(expected) => {
                let derived: Vec<&str> = rb.list("acc").collect();
                let keys: Vec<&str> = ho.list("keys").collect();
                acc::compare(checked, criteria, expected, &derived, &keys, &excluded);
            }
        }
    }
    if plan && rb.text("do").is_none() {
        let text = "tier4 comprehension: rb=plan requires do= on the RB";
        checked.problem(Problem::new(Code::DoMissing, text).slot("do"));
    }
    // an empty set kept back stands for none here: what the handoff itself demands is demanded
    let expected = kept.filter(|kept| !kept.is_empty()).or(sent).unwrap_or_default();
    let must: Vec<Criterion> = expected
        .iter()
        .filter_map(|t| acc::required(criteria, t))
        .take(acc::MAX_CRITERIA)
        .collect();
    for token in excluded.iter().take(acc::MAX_CRITERIA) {
        let not = Criterion::of(criteria, &lower(token));
        if must.iter().any(|m| m.same(&not)) {
            let text = format!("tier4 comprehension: receiver excludes {token}, which the sender requires");
            checked.problem(Problem::new(Code::AccExcluded, text).slot("not").got(*token));
        }
    }
}

fn execution(checked: &mut Checked, vocabulary: &Profile, ho: &Message<'_>, rb: &Message<'_>) {
    let ask = ho.ask().unwrap_or("?");
    let Some(slots) = vocabulary.exec(ask) else {
        let text = format!(
            "tier5 execution: no execution slots are named for {ask}; the echo is all that was checked"
        );
        checked.note(Problem::new(Code::NoExecSlots, text).slot("ask").got(ask));
        return;
    };
    // What an UNDO reverses has slots of its own. Which act that is, the lines do not say; but what the sender named of it
    // must be what would be done.
    let of_reversed = (ask == "UNDO").then(|| vocabulary.undo_slots());
    let named = of_reversed
        .into_iter()
        .flatten()
        .filter(|key| !slots.contains(key) && ho.get(key).is_some());
    for key in slots.iter().chain(named) {
        match (ho.get(key), rb.get(key)) {
            (want, None) => {
                let text =
                    format!("tier5 execution: RB does not carry {key}, with which the act would be done");
                let problem = Problem::new(Code::ExecMissing, text).slot(key);
                checked.problem(match want {
                    Some(want) => problem.want(want.show()),
                    None => problem,
                });
            }
            (Some(want), Some(got)) if want != got => {
                let (want, got) = (want.show(), got.show());
                let text = format!("tier5 execution: {key} mismatch: HO {want} vs RB {got}");
                checked.problem(mismatch(Code::ExecMismatch, key, text, &want, &got));
            }
            _ => {}
        }
    }
}
