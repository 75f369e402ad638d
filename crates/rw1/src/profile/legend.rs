//! The legend: what another model needs in its prompt to read and write lines. Generated, so that it cannot differ
//! from what is checked.

use super::{EnumDef, Profile, Profiles, SlotType};
use crate::VERSION;
use crate::kind::Kind;
use crate::problem::Problem;

/// The legend of a profile (or of the core). The lean form leaves out the keys of the comprehension readback and the
/// core asks that the profile does not use.
///
/// # Errors
/// There is no such profile.
pub fn legend(profiles: &Profiles, profile: Option<&str>, lean: bool) -> Result<String, Problem> {
    let profile = profiles.find(profile)?;
    let mut out = vec![format!(
        "rogerwilco {VERSION}. A message is one line: RW1 <TYPE> <id> [re=<id>] from=<agent> to=<agent> [item=<ref>] \
         key=value ... [// tail]. A value has no spaces; + joins lists; dates are YYYYMMDD; the tail is free text of at \
         most {} characters.",
        profile.tail_max
    )];
    out.extend(Kind::ALL.map(|kind| type_line(profile, kind, lean)));
    out.extend(readback_rules(profile, lean));
    out.extend(
        profile
            .enums
            .iter()
            .enumerate()
            .map(|(at, codes)| vocabulary_line(profile, at, codes, lean)),
    );
    if !lean {
        out.push(format!(
            "acc= takes these constraint keys and no others: {}. A value is lowercase and has no spaces: len:120w lang:uk \
             must:monday-problem no:em-dash.",
            pairs(&profile.criteria.keys, "; ")
        ));
    }
    out.push(
        "An HO closes exactly once: with DN, UN or FL from its receiver, or with CX from its sender. Answer a CX by \
         dropping what you prepared and sending AN val=Y; where the act already ran, send its DN. exp=YYYYMMDDTHHMMZ \
         (UTC) is the last moment: past it do not act on an HO and do not confirm a statement. A DN that differs from \
         the plan is reversed with a new HO, ask=UNDO ctx=<id of that DN>."
            .into(),
    );
    out.push(
        "Your message ids are <yourname>-<n>, each used once in a conversation. The sender sets the readback level of \
         each handoff: rb=exec before an act that cannot be undone (paying, changing payee details, anything that \
         leaves the house) where the profile names execution slots, rb=all where it names none, otherwise nothing, \
         which asks for the envelope."
            .into(),
    );
    if !profile.exec.is_empty() {
        let slots: Vec<String> = profile
            .exec
            .iter()
            .map(|(ask, slots)| format!("{ask}: {}", slots.join(" ")))
            .collect();
        out.push(format!(
            "rb=exec: state in the RB each execution slot of the ask with the value you will really use, looked up in \
             your own records where the HO is silent ({}). The sender compares them with its record; nothing but its AN \
             val=Y lets you act. Afterwards the DN repeats the slots with the values as executed, read from the tool's \
             result and not from what you meant; they are compared too.",
            slots.join("; ")
        ));
    }
    if !profile.is_core {
        out.push(profile_line(profile));
    }
    Ok(out.join("\n"))
}

fn type_line(profile: &Profile, kind: Kind, lean: bool) -> String {
    let def = profile.kind(kind);
    let key = |at: &usize| profile.slots[*at].key.as_str();
    let hidden = |at: &usize| {
        lean && (profile.slots[*at].desc.is_some()
            || matches!(key(at), "acc" | "keys" | "do" | "not" | "asm"))
    };
    let required: Vec<&str> = def.required.iter().map(key).collect();
    let optional: Vec<&str> = def.optional.iter().filter(|at| !hidden(at)).map(key).collect();
    let mut line = format!("{kind} {}: requires {}", def.name, required.join(" "));
    if !optional.is_empty() {
        line.push_str("; optional ");
        line.push_str(&optional.join(" "));
    }
    line
}

fn readback_rules(profile: &Profile, lean: bool) -> Vec<String> {
    const LAST: &str = "If you can run code, add h=<digest of the HO>. A code you do not know: UN why=UNK, never a guess. \
                        re= stands on every reply.";
    if !lean {
        return vec![format!(
            "An RB repeats item, ask and due of the HO as you decoded them, and whatever slots the HO names in rb=; \
             rb=all names every slot. On rb=acc or rb=plan it also carries acc=<the acceptance criteria you derived from \
             the brief, key:value joined by +>, on rb=plan do=<what you will produce> too; not=<left out on purpose> and \
             asm=<assumed> are welcome, and the tail says the task in your own words. {LAST}"
        )];
    }
    let mut out = Vec::new();
    if profile.slots.iter().any(|slot| slot.desc.is_some()) {
        out.push("A slot of the profile may stand on any type on which it states a fact.".to_owned());
    }
    out.push(format!(
        "An RB repeats item, ask and due of the HO as you decoded them, and whatever slots the HO names in rb=; rb=all \
         names every slot. {LAST}"
    ));
    out
}

fn vocabulary_line(profile: &Profile, at: usize, vocabulary: &EnumDef, lean: bool) -> String {
    let lean_asks = lean && at == profile.ask_enum && !profile.asks_used.is_empty();
    let hidden =
        |code: &String| lean_asks && profile.core_asks.contains(code) && !profile.asks_used.contains(code);
    let shown: Vec<(String, String)> = vocabulary
        .codes
        .iter()
        .filter(|(code, _)| !hidden(code))
        .cloned()
        .collect();
    format!("{}: {}", vocabulary.name, pairs(&shown, ", "))
}

fn profile_line(profile: &Profile) -> String {
    let mut line = format!("Profile {0}: its messages carry p={0}.", profile.name);
    if let Some(agents) = &profile.agents {
        line.push_str(&format!(" Agents: {}.", agents.join(", ")));
    }
    if profile.answers.is_some() {
        line.push_str(" The opts of an AQ and the val of an AN are taken from ans; none is invented.");
    }
    let described: Vec<String> = profile
        .slots
        .iter()
        .filter_map(|slot| {
            Some(format!(
                "{}={} ({})",
                slot.key,
                slot.desc.as_deref()?,
                slot.ty_text
            ))
        })
        .collect();
    if !described.is_empty() {
        line.push_str(&format!(" Slots of the profile: {}.", described.join("; ")));
    }
    let uses = |ty: &SlotType| profile.slots.iter().any(|slot| slot.ty == *ty);
    if uses(&SlotType::Money) {
        line.push_str(" money is digits with two decimals and no separators (5400.00).");
    }
    if uses(&SlotType::Num) {
        line.push_str(
            " num is a number as written, or two with a slash (7.2, 148/88); the unit has its own slot.",
        );
    }
    if !profile.item_kinds.is_empty() {
        line.push_str(&format!(
            " item is <kind>:<concept>; the kinds are {}.",
            pairs(&profile.item_kinds, ", ")
        ));
    }
    if !profile.item_examples.is_empty() {
        line.push_str(&format!(" Items look like {}.", profile.item_examples.join(", ")));
    }
    line
}

fn pairs(pairs: &[(String, String)], between: &str) -> String {
    pairs
        .iter()
        .map(|(code, meaning)| format!("{code}={meaning}"))
        .collect::<Vec<_>>()
        .join(between)
}
