//! Prepare, decided: what a handoff line is, how it stands to what is already known, and the statement made of it.
//!
//! Three questions in order, each a function. [`intake`]: is this a handoff we may take at all? [`standing`]: has it
//! been here before? [`state`]: what exactly do we state, and does it pass our own check?

use std::borrow::Cow;

use rw1::{Code, Kind, Message, Profiles, RbCheck};

use crate::act::{Closed, Lapse, StoredProblem};
use crate::frozen::FrozenValue;
use crate::journal::{Entry, EntryKind, OURSELVES, sha256_hex};
use crate::lines::{self, Reply};
use crate::write::{Change, Expect};
use crate::{Act, Frozen, Handoff, Offer, Reason, Refusal, Resolved, Stage, State, Timestamp};

/// A handoff line, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intake {
    /// One to resolve.
    Take(Handoff),
    /// One to answer with a stored UN.
    Refuse {
        /// The handoff, as far as it could be read.
        handoff: Handoff,
        /// The UN's `why`.
        why: &'static str,
        /// The UN's tail: names the code or rule.
        text: String,
        /// The line does not validate: it and its UN are kept outside the thread.
        outside: bool,
    },
}

/// The exact line that identifies a handoff: what arrived, one final line end removed.
#[must_use]
pub fn exact_line(text: &str) -> &str {
    text.strip_suffix("\r\n")
        .or_else(|| text.strip_suffix('\n'))
        .unwrap_or(text)
}

/// The one line a field holds.
///
/// # Errors
/// A text with a line end left in it: it would stand in the thread as another line than it was read as.
pub(crate) fn one_line<'a>(field: &str, text: &'a str) -> Result<&'a str, Refusal> {
    let line = exact_line(text);
    if line.contains(['\n', '\r']) {
        return Err(Refusal::malformed(
            field,
            "one line, with at most one line end after it",
        ));
    }
    Ok(line)
}

/// Reads a handoff line and decides whether it may be taken. `speaks_for` says whether the caller may send for an
/// agent; `served` lists the agents we serve.
///
/// # Errors
/// What is not a line, is no handoff, comes from the wrong caller or is for an agent we do not serve. Nothing is
/// stored then.
pub fn intake(
    profiles: &Profiles,
    text: &str,
    speaks_for: &dyn Fn(&str) -> bool,
    served: &[String],
) -> Result<Intake, Refusal> {
    let line = one_line("ho", text)?;
    let parsed = rw1::parse(profiles, None, line);
    let Some(message) = parsed
        .message
        .as_ref()
        .filter(|m| !m.from.is_empty() && !m.to.is_empty())
    else {
        return Err(not_a_line("ho", parsed.errors));
    };
    ours_to_take("ho", Kind::Ho, message, speaks_for, served)?;
    let handoff = handoff_of(message, line);
    if !parsed.errors.is_empty() || !parsed.warnings.is_empty() {
        // An unknown code is a question of vocabulary, answered in the protocol (RW1 specification §5, rule 2); any
        // other fault of form is an error of the caller's program.
        let unknown = |c: Code| matches!(c, Code::UnknownCode | Code::UnknownProfile);
        // The slots of a profile nobody has here are unknown keys by that fault alone.
        let no_profile = parsed.errors.iter().any(|p| p.code == Code::UnknownProfile);
        let by_it = |c: Code| no_profile && c == Code::UnknownKey;
        if parsed.errors.iter().all(|p| unknown(p.code)) && parsed.warnings.iter().all(|p| by_it(p.code)) {
            let text = texts(&parsed.errors);
            return Ok(Intake::Refuse {
                handoff,
                why: "UNK",
                text,
                outside: true,
            });
        }
        let mut problems = parsed.errors;
        problems.extend(parsed.warnings);
        return Err(not_a_line("ho", problems));
    }
    Ok(match rule_broken(profiles, message) {
        Some((why, text)) => Intake::Refuse {
            handoff,
            why,
            text,
            outside: false,
        },
        None => Intake::Take(handoff),
    })
}

/// Whether a line is of the type a verb takes, from an agent the caller speaks for, to one we serve.
pub(crate) fn ours_to_take(
    field: &str,
    kind: Kind,
    message: &Message<'_>,
    speaks_for: &dyn Fn(&str) -> bool,
    served: &[String],
) -> Result<(), Refusal> {
    if message.kind != kind {
        let text = format!(
            "a line of type {} goes here, this is {}",
            kind.as_str(),
            message.kind.as_str()
        );
        return Err(Refusal::malformed(field, text));
    }
    if !speaks_for(message.from) {
        return Err(not_yours(message.from));
    }
    if !served.iter().any(|agent| agent == message.to) {
        let text = format!(
            "to={} is not an agent served here; served: {}",
            message.to,
            served.join(" ")
        );
        return Err(Refusal::malformed(field, text).at_slot("to"));
    }
    Ok(())
}

fn rule_broken(profiles: &Profiles, message: &Message<'_>) -> Option<(&'static str, String)> {
    let ask = message.ask().unwrap_or("");
    let profile_name = message.text("p").unwrap_or("");
    let exec = profiles.get(profile_name).and_then(|p| p.exec(ask));
    let Some(exec) = exec.filter(|slots| !slots.is_empty()) else {
        let profile = if profile_name.is_empty() {
            "the core"
        } else {
            profile_name
        };
        return Some((
            "NOCAP",
            format!("{profile} names no execution slots for ask {ask}; nothing to execute here"),
        ));
    };
    if message.asks_readback("acc") || message.asks_readback("plan") {
        return Some((
            "NOCAP",
            "rb: a tool has no comprehension to read back; ask rb=exec".to_owned(),
        ));
    }
    if !message.asks_readback("exec") {
        return Some((
            "NOCAP",
            format!("rb: ask {ask} is irreversible; the handoff must ask rb=exec"),
        ));
    }
    if exec.iter().any(|slot| slot == "amt")
        && message
            .text("amt")
            .is_some_and(|amt| !rw1::money_is_positive(amt))
    {
        return Some(("SCOPE", "amt must be greater than zero".to_owned()));
    }
    None
}

fn handoff_of(message: &Message<'_>, line: &str) -> Handoff {
    Handoff {
        id: message.id.to_owned(),
        line: line.to_owned(),
        sender: message.from.to_owned(),
        receiver: message.to.to_owned(),
        item: message.item.unwrap_or("").to_owned(),
        ask: message.ask().unwrap_or("").to_owned(),
        profile: message.text("p").unwrap_or("").to_owned(),
    }
}

/// The refusal of a text that is no line.
#[must_use]
pub fn not_a_line(field: &str, problems: Vec<rw1::Problem>) -> Refusal {
    let slot = problems.iter().find_map(|p| p.slot.clone());
    let mut refusal = Refusal::malformed(field, texts(&problems))
        .with_problems(problems.iter().map(StoredProblem::from).collect());
    refusal.slot = slot;
    refusal
}

/// The refusal of a caller that does not speak for an agent.
#[must_use]
pub fn not_yours(agent: &str) -> Refusal {
    Refusal::new(Reason::NotYours, format!("the caller does not speak for {agent}")).at_slot("from")
}

fn texts(problems: &[rw1::Problem]) -> String {
    problems
        .iter()
        .map(|p| p.text.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

/// When a handoff ends unless it is claimed: its `exp`, the end of its `due` day, or, having neither, `age_s` after
/// it arrived.
#[must_use]
pub fn limit_of(profiles: &Profiles, handoff: &Handoff, arrived: Timestamp, age_s: i64) -> Timestamp {
    let parsed = rw1::parse(profiles, None, &handoff.line);
    let Some(message) = parsed.message else {
        return arrived.plus_seconds(age_s);
    };
    let exp = message.text("exp").and_then(Timestamp::from_rw1);
    let due = message.text("due").and_then(Timestamp::end_of_day);
    match (exp, due) {
        (Some(a), Some(b)) => a.min(b),
        (Some(a), None) | (None, Some(a)) => a,
        (None, None) => arrived.plus_seconds(age_s),
    }
}

/// How a handoff line stands to what is known under its id in its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The same handoff, stated: its RB is given again.
    Statement,
    /// The same handoff, closed: its closing line is given again.
    Closed,
    /// The same handoff, its statement lapsed: the next attempt is made.
    Again,
    /// A cancel was here first: the handoff is refused.
    Tombstone,
}

/// Decides how `line` stands to the act that holds its id.
///
/// # Errors
/// [`Reason::HandoffConflict`] naming the first part that differs, where the id is the same and the bytes are not.
pub fn standing(profiles: &Profiles, existing: &Act, line: &str) -> Result<Standing, Refusal> {
    if existing.is_tombstone() {
        return Ok(Standing::Tombstone);
    }
    if let Some(sha256) = existing.erased_handoff() {
        if sha256_hex(line.as_bytes()) == sha256 {
            return Ok(Standing::Closed);
        }
        let text = format!(
            "{} was handed over before in thread {} with other bytes; its line was erased since. Use a new id for a new \
             handoff",
            existing.handoff.id, existing.thread
        );
        return Err(Refusal::new(Reason::HandoffConflict, text).in_field("ho"));
    }
    if existing.handoff.line != line {
        let part = first_difference(profiles, &existing.handoff.line, line);
        let text = format!(
            "{} was handed over before in thread {} with other bytes; {part} differs. Use a new id for a new handoff",
            existing.handoff.id, existing.thread
        );
        return Err(Refusal::new(Reason::HandoffConflict, text)
            .in_field("ho")
            .at_slot(part));
    }
    Ok(match existing.state() {
        State::Prepared | State::Held | State::Executing | State::InDoubt => Standing::Statement,
        State::Lapsed => Standing::Again,
        State::Done | State::Failed | State::Cancelled | State::Refused => Standing::Closed,
    })
}

/// The first slot in which two lines differ; `tail` or `form` where no slot does.
fn first_difference(profiles: &Profiles, old: &str, new: &str) -> String {
    let (old, new) = (rw1::parse(profiles, None, old), rw1::parse(profiles, None, new));
    let (Some(a), Some(b)) = (old.message, new.message) else {
        return "form".to_owned();
    };
    let header = [
        ("re", a.re.unwrap_or(""), b.re.unwrap_or("")),
        ("from", a.from, b.from),
        ("to", a.to, b.to),
        ("item", a.item.unwrap_or(""), b.item.unwrap_or("")),
    ];
    if let Some((key, ..)) = header.into_iter().find(|(_, x, y)| x != y) {
        return key.to_owned();
    }
    let keys = a.slots.iter().chain(b.slots.iter()).map(|(k, _)| k);
    if let Some(key) = keys.into_iter().find(|k| a.get(k) != b.get(k)) {
        return key.to_owned();
    }
    if a.tail != b.tail {
        "tail".to_owned()
    } else {
        "form".to_owned()
    }
}

/// What a handoff's `re=` means for the act that holds the line it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reissue {
    /// Nothing: the line is none of ours, or what it names is closed without effect.
    Unrelated,
    /// It takes the place of this act, whose statement was not confirmed.
    Supersedes,
    /// It is refused.
    Refuse(&'static str, String),
}

/// What can be done about an act that was done, in one clause for people.
#[must_use]
pub fn way_back(act: &Act) -> String {
    let closed = act.closed();
    let contract = closed.and_then(|c| c.offer.as_ref()).map(|o| &o.frozen.contract);
    match (contract, closed) {
        (Some(contract), Some(closed)) => contract.way_back(&closed.line_id),
        // Its texts were erased, and what it was done with.
        _ => "it cannot be reversed here any more".to_owned(),
    }
}

/// Decides what a re-issued handoff does to the act `target` whose journal holds message `re` with this `body`. Where the
/// body was erased, it is taken for the statement: it may have been.
#[must_use]
pub fn reissue(handoff: &Handoff, re: &str, target: &Act, body: Option<&str>) -> Reissue {
    let names_rb = match body {
        Some(body) => body.starts_with("RW1 RB "),
        None => target.erased_handoff().is_some(),
    };
    let names_ho = target.handoff.id == re && target.attempt > 0;
    if !(names_rb || names_ho) {
        return Reissue::Unrelated;
    }
    // What is another sender's is answered like what is not there.
    if target.handoff.sender != handoff.sender {
        return Reissue::Unrelated;
    }
    if names_ho {
        return match target.state() {
            State::Refused | State::Cancelled | State::Failed => Reissue::Unrelated,
            _ => Reissue::Refuse(
                "DUP",
                format!("{re} was read back already; confirm, cancel or wait for that one"),
            ),
        };
    }
    match target.state() {
        State::Prepared | State::Held | State::Lapsed => Reissue::Supersedes,
        State::Executing | State::InDoubt => Reissue::Refuse(
            "CONFLICT",
            format!(
                "{} was confirmed and its outcome is not known yet",
                target.handoff.id
            ),
        ),
        State::Done => Reissue::Refuse(
            "CONFLICT",
            format!("{} was done; {}", target.handoff.id, way_back(target)),
        ),
        State::Refused if target.closed().is_some_and(|c| c.superseded) => Reissue::Refuse(
            "DUP",
            format!("{re} was superseded already; its successor is the one to confirm, cancel or name"),
        ),
        State::Failed | State::Cancelled | State::Refused => Reissue::Unrelated,
    }
}

/// Turns what the adapter resolved into what is frozen.
#[must_use]
pub fn freeze(
    resolved: Resolved,
    exec: &[String],
    adapter: &str,
    served: (&crate::Contract, &[String]),
    profile_digest: &str,
    limit: Timestamp,
) -> Frozen {
    let mut pool = resolved.values;
    let values: Vec<FrozenValue> = exec
        .iter()
        .filter_map(|slot| {
            pool.iter()
                .position(|v| v.slot == *slot)
                .map(|i| pool.swap_remove(i))
        })
        .collect();
    let (contract, carried) = served;
    Frozen {
        adapter: adapter.to_owned(),
        values,
        extra: resolved.extra,
        carried: carried.to_vec(),
        request: resolved.request,
        placed: resolved.placed,
        authorise_at: resolved.authorise_at,
        profile_digest: profile_digest.to_owned(),
        contract: contract.clone(),
        not_after: resolved.cut_off.map_or(limit, |cut_off| cut_off.min(limit)),
    }
}

/// When a statement made at `now` stops being confirmable: `ttl_s` later rounded up to the minute, never past the
/// handoff's end or the counterparty's cut-off. `None` where that is not after `now`.
#[must_use]
pub fn statement_end(now: Timestamp, ttl_s: i64, not_after: Timestamp) -> Option<Timestamp> {
    let end = now.plus_seconds(ttl_s).minute_up().min(not_after.minute_down());
    (end > now).then_some(end)
}

/// The statement: the RB line with the frozen values, and what our own check says of it.
///
/// # Errors
/// A value that cannot stand on a line, by name. Nothing is stored then.
pub fn state(
    profiles: &Profiles,
    act: &Act,
    rb_id: &str,
    frozen: Frozen,
    now: Timestamp,
    expires_at: Timestamp,
    notes: Vec<String>,
) -> Result<Offer, Refusal> {
    let handoff = &act.handoff;
    let parsed = rw1::parse(profiles, None, &handoff.line);
    let message = parsed.message.ok_or_else(|| not_a_line("ho", parsed.errors))?;
    let mut reply = Reply::new(Kind::Rb, &handoff.id);
    for (key, value) in echoed(&message) {
        let ours = frozen.values.iter().any(|v| v.slot == key) || frozen.extra.iter().any(|(k, _)| k == key);
        if !ours {
            reply = reply.slot(key, value);
        }
    }
    let digest = rw1::digest(profiles, None, &handoff.line).map_err(|problems| not_a_line("ho", problems))?;
    reply = reply.slot("h", digest).slot("exp", expires_at.to_rw1());
    for value in &frozen.values {
        reply = reply.slot(&value.slot, value.value.as_str());
    }
    for (key, value) in &frozen.extra {
        reply = reply.slot(key, value.as_str());
    }
    let statement = reply.write(profiles, act, rb_id).map_err(|problems| {
        let text = format!(
            "what {} resolved cannot be stated on a line: {}",
            frozen.adapter,
            texts(&problems)
        );
        let slot = problems.iter().find_map(|p| p.slot.clone());
        let mut refusal = Refusal::new(Reason::AdapterDown, text);
        refusal.slot = slot;
        refusal
    })?;
    let now_text = now.to_rw1();
    let checked = rw1::check_rb(
        profiles,
        None,
        &handoff.line,
        &statement,
        RbCheck {
            expect_acc: None,
            now: Some(&now_text),
        },
    );
    let mut notes = notes;
    notes.extend(checked.notes.into_iter().map(|n| n.text));
    Ok(Offer {
        attempt: act.attempt + 1,
        rb_id: rb_id.to_owned(),
        statement_sha256: sha256_hex(statement.as_bytes()),
        statement,
        expires_at,
        frozen,
        problems: checked.problems.iter().map(StoredProblem::from).collect(),
        notes,
    })
}

/// Slots in which a statement says something of its own: its digest and end, the token, what pays, what confirmation of
/// payee answered, that a payment is scheduled, that nothing real moves; what a mail says, whom it is from and who else gets
/// it; that a call-back is required; where a version goes and which bytes it is. A handoff cannot put words into our mouth
/// with them.
pub const READBACKS_OWN: [&str; 15] = [
    "h",
    "exp",
    "x_tok",
    "x_dbtr",
    "x_cop",
    "x_sched",
    "x_sim",
    "x_body",
    "x_subj",
    "x_from",
    "x_bcc",
    "x_callback",
    "x_target",
    "x_commit",
    "x_digest",
];

/// The slots a readback echoes beside the execution slots: `ask`, `due`, what the handoff named in `rb=`, and under
/// `rb=all` every slot (RW1 specification §5.1).
fn echoed<'a>(message: &'a Message<'a>) -> Vec<(&'a str, Cow<'a, str>)> {
    let all = message.asks_readback("all");
    let named = |key: &str| message.list("rb").any(|n| n.eq_ignore_ascii_case(key));
    message
        .slots
        .iter()
        .filter(|(key, _)| !matches!(*key, "rb" | "p" | "acc" | "keys") && !READBACKS_OWN.contains(key))
        .filter(|(key, _)| all || matches!(*key, "ask" | "due") || named(key))
        .map(|(key, value)| (key, value.show()))
        .collect()
}

/// Notes what the act is alike to, as its next statement has it. A release was of the likeness an operator saw: where the
/// values were resolved anew and differ, it is spent.
pub fn liken(profiles: &Profiles, act: &mut Act, frozen: &Frozen) {
    let likeness = likeness(profiles, &act.handoff, frozen);
    if act.likeness != likeness {
        act.released_by = None;
        act.likeness = likeness;
    }
}

/// The hash by which two acts are alike, where the profile names likeness slots for the ask.
#[must_use]
pub fn likeness(profiles: &Profiles, handoff: &Handoff, frozen: &Frozen) -> Option<String> {
    let likeness = profiles.get(&handoff.profile)?.likeness(&handoff.ask)?;
    let mut text = format!("{}\n{}\n", handoff.profile, handoff.ask);
    for slot in &likeness.slots {
        let value = if slot == "item" {
            Some(handoff.item.as_str())
        } else {
            frozen.value(slot)
        };
        text.push_str(slot);
        text.push('=');
        text.push_str(value.unwrap_or(""));
        text.push('\n');
    }
    Some(sha256_hex(text.as_bytes()))
}

/// The write that stores a statement: a new act with its HO and RB, or the next attempt of a lapsed one.
#[must_use]
pub fn stated(mut act: Act, expect: Expect, offer: Offer, principal: &str) -> Change {
    let mut entries = Vec::new();
    if expect == Expect::Absent {
        entries.push(Entry::line(&act.handoff.id, &act.handoff.line, principal));
    }
    entries.push(Entry::line(&offer.rb_id, &offer.statement, OURSELVES));
    act.attempt = offer.attempt;
    act.stage = if offer.problems.is_empty() {
        Stage::Prepared(offer)
    } else {
        Stage::Held(offer)
    };
    Change {
        unless_twin: None,
        expect,
        act,
        entries,
    }
}

/// The write that answers a handoff with a UN. For a tombstone (`expect` a version) the cancel that was there first
/// enters the thread with its handoff.
///
/// # Errors
/// A line that cannot be written.
#[allow(clippy::too_many_arguments)]
pub fn refused(
    profiles: &Profiles,
    mut act: Act,
    expect: Expect,
    why: &str,
    text: &str,
    outside: bool,
    principal: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let id = lines::next_id(&mut act);
    let line = Reply::new(Kind::Un, &act.handoff.id)
        .slot("why", why)
        .tail(text)
        .write_ours(profiles, &act, &id)?;
    let mut entries = Vec::new();
    let kind = if outside {
        EntryKind::Outside
    } else {
        EntryKind::Line
    };
    // Outside the thread an id takes nothing: a line of the thread may have it.
    let taken = |id: &str| (!outside).then(|| id.to_owned());
    entries.push(Entry {
        kind,
        message_id: taken(&act.handoff.id),
        body: act.handoff.line.clone(),
        principal: principal.to_owned(),
    });
    entries.push(Entry {
        kind,
        message_id: taken(&id),
        body: line.clone(),
        principal: OURSELVES.to_owned(),
    });
    let offer = act.offer().cloned();
    act.undo_of = None;
    act.stage = Stage::Refused(closed(line, id, now, offer));
    Ok(Change {
        unless_twin: None,
        expect,
        act,
        entries,
    })
}

/// The write that closes an act because a newer handoff took its place.
///
/// # Errors
/// A line that cannot be written.
pub fn superseded(profiles: &Profiles, target: &Act, by: &str, now: Timestamp) -> Result<Change, Refusal> {
    let mut act = target.clone();
    let id = lines::next_id(&mut act);
    let line = Reply::new(Kind::Un, &act.handoff.id)
        .slot("why", "SUPERSEDED")
        .tail(&format!("replaced by {by}"))
        .write_ours(profiles, &act, &id)?;
    let entries = vec![Entry::line(&id, &line, OURSELVES)];
    let offer = act.offer().cloned();
    act.undo_of = None;
    act.stage = Stage::Refused(Closed {
        superseded: true,
        ..closed(line, id, now, offer)
    });
    Ok(Change {
        unless_twin: None,
        expect: Expect::Version(target.version),
        act,
        entries,
    })
}

/// A close with nothing executed.
#[must_use]
pub fn closed(line: String, line_id: String, at: Timestamp, offer: Option<Offer>) -> Closed {
    Closed {
        line,
        line_id,
        closed_at: at,
        offer,
        claim: None,
        verdict: None,
        problems: Vec::new(),
        notes: Vec::new(),
        receipt: None,
        superseded: false,
        erased: None,
        audit: None,
        refused_there: false,
    }
}

/// The write that marks a statement whose time ran out.
#[must_use]
pub fn lapsed(act: &Act, offer: &Offer, why: Lapse, entries: Vec<Entry>) -> Change {
    let mut next = act.clone();
    next.stage = Stage::Lapsed(offer.clone(), why);
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    }
}

#[cfg(test)]
mod tests;
