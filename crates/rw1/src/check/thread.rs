//! The whole conversation: every handoff closes exactly once (RW1 specification §5.4).

use std::collections::BTreeMap;

use super::{has_passed, instant};
use crate::kind::Kind;
use crate::message::Message;
use crate::parse::Judge;
use crate::problem::{Checked, Code, Problem};
use crate::profile::Profiles;

/// Checks a conversation, its lines in the order in which they were sent; empty lines and lines that begin with `#`
/// are passed over. Notes name the handoffs that are open and in time. With `now: None` no handoff is late.
pub fn check_thread<S: AsRef<str>>(
    profiles: &Profiles,
    profile: Option<&str>,
    lines: &[S],
    now: Option<&str>,
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
    let now = instant(&mut checked, "now", now);
    let mut thread = Thread::default();
    for (n, line) in lines.iter().enumerate().map(|(n, line)| (n + 1, line.as_ref())) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match judge.parse(line).0.accepted() {
            Ok(message) => thread.add(&mut checked, n, message),
            Err(errors) => checked
                .problems
                .extend(errors.into_iter().map(|e| e.prefixed(&format!("line {n}: ")))),
        }
    }
    for at in 0..thread.messages.len() {
        if thread.messages[at].1.kind == Kind::Ho {
            thread.handoff(&mut checked, at, now);
        }
    }
    for (n, cx) in thread.messages.iter().filter(|(_, m)| m.kind == Kind::Cx) {
        let re = cx.re.unwrap_or_default();
        let named = thread.by_id.get(re).and_then(|&at| thread.messages.get(at));
        if named.is_none_or(|(_, m)| m.kind != Kind::Ho) {
            let text = format!("line {n}: CX {} re={re} names no HO of this thread", cx.id);
            checked.problem(Problem::new(Code::CancelUnknown, text).slot("re").got(re));
        }
    }
    checked
}

/// The accepted lines, findable by id and by what they reply to.
#[derive(Default)]
struct Thread<'a> {
    /// The number of the line, counted from 1, and its message.
    messages: Vec<(usize, Message<'a>)>,
    by_id: BTreeMap<&'a str, usize>,
    replies: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Thread<'a> {
    /// Takes a message in. One whose id was used is a problem and is not judged further: a reply to that id would
    /// answer either, and with every id used once the whole check is linear.
    fn add(&mut self, checked: &mut Checked, n: usize, message: Message<'a>) {
        if let Some((first, _)) = self.by_id.get(message.id).and_then(|&at| self.messages.get(at)) {
            let text = format!(
                "line {n}: id {} was used on line {first}; an id names one message of a thread",
                message.id
            );
            checked.problem(Problem::new(Code::DuplicateId, text).slot("id").got(message.id));
            return;
        }
        let at = self.messages.len();
        self.by_id.insert(message.id, at);
        if let Some(re) = message.re {
            self.replies.entry(re).or_default().push(at);
        }
        self.messages.push((n, message));
    }

    /// The messages after `at` that reply to `id`.
    fn replies_after(&self, id: &str, at: usize) -> impl Iterator<Item = (usize, &(usize, Message<'a>))> {
        let all = self.replies.get(id).map(Vec::as_slice).unwrap_or_default();
        all.iter()
            .filter(move |&&reply| reply > at)
            .filter_map(|&reply| Some((reply, self.messages.get(reply)?)))
    }

    /// What became of one handoff.
    fn handoff(&self, checked: &mut Checked, at: usize, now: Option<&str>) {
        let Some((_, ho)) = self.messages.get(at) else {
            return;
        };
        let mut closers: Vec<(usize, &Message<'a>)> = Vec::new();
        let mut cancels: Vec<(usize, &Message<'a>)> = Vec::new();
        for (reply, (n, m)) in self.replies_after(ho.id, at) {
            match m.kind {
                kind if kind.closes() && m.from == ho.to => closers.push((reply, m)),
                kind if kind.closes() => {
                    let text = format!(
                        "line {n}: {kind} {} closes {} but is not from {}, its receiver",
                        m.id, ho.id, ho.to
                    );
                    checked.problem(
                        Problem::new(Code::StrangerClosed, text)
                            .slot("from")
                            .want(ho.to)
                            .got(m.from),
                    );
                }
                Kind::Cx => {
                    cancels.push((reply, m));
                    if m.from != ho.from || m.to != ho.to {
                        let text = format!(
                            "line {n}: CX {} must come from {} to {}, as the HO did",
                            m.id, ho.from, ho.to
                        );
                        let (slot, want, got) = if m.from != ho.from {
                            ("from", ho.from, m.from)
                        } else {
                            ("to", ho.to, m.to)
                        };
                        checked.problem(
                            Problem::new(Code::CancelForeign, text)
                                .slot(slot)
                                .want(want)
                                .got(got),
                        );
                    }
                }
                _ => {}
            }
        }
        if closers.len() > 1 {
            let list: Vec<String> = closers
                .iter()
                .map(|(_, m)| format!("{} {}", m.kind, m.id))
                .collect();
            let text = format!(
                "{}: closed {} times ({}); a handoff closes once",
                ho.id,
                closers.len(),
                list.join(", ")
            );
            checked.problem(Problem::new(Code::ClosedTwice, text).got(list.join("+")));
        }
        let acknowledged = self.cancelled(checked, ho, &closers, &cancels);
        if closers.is_empty() && !acknowledged {
            still_open(checked, ho, now);
        }
    }

    /// Judges the cancels of a handoff; true when one was acknowledged.
    fn cancelled(
        &self,
        checked: &mut Checked,
        ho: &Message<'a>,
        closers: &[(usize, &Message<'a>)],
        cancels: &[(usize, &Message<'a>)],
    ) -> bool {
        let Some(&(first_at, first)) = cancels.first() else {
            return false;
        };
        let ran = |m: &Message<'_>| m.kind == Kind::Dn && m.text("out") != Some("NOOP");
        let first_ran = closers.iter().find(|(_, m)| ran(m));
        let mut acknowledged = false;
        for &(cancel_at, cx) in cancels {
            let yes = |m: &Message<'_>| m.kind == Kind::An && m.text("val") == Some("Y") && m.from == ho.to;
            for (answer_at, (_, answer)) in self.replies_after(cx.id, cancel_at).filter(|(_, (_, m))| yes(m))
            {
                acknowledged = true;
                if let Some((_, dn)) = first_ran.filter(|(at, _)| *at < answer_at) {
                    let text = format!(
                        "{}: {} acknowledges the cancel as if nothing ran, but {} had reported the act done",
                        ho.id, answer.id, dn.id
                    );
                    checked.problem(
                        Problem::new(Code::DeniedAfterDone, text)
                            .want(dn.id)
                            .got(answer.id),
                    );
                }
            }
        }
        if let Some((_, dn)) = closers.iter().find(|(at, m)| *at > first_at && ran(m)) {
            let text = format!(
                "{}: {} reports the act done after CX {} cancelled it; decide about an UNDO",
                ho.id, dn.id, first.id
            );
            checked.problem(
                Problem::new(Code::DoneAfterCancel, text)
                    .want(first.id)
                    .got(dn.id),
            );
        } else if closers.is_empty() && !acknowledged {
            let text = format!(
                "{}: CX {} is not yet acknowledged; the receiver abandons what it prepared and answers AN val=Y",
                ho.id, first.id
            );
            checked.note(Problem::new(Code::CancelPending, text).got(first.id));
        }
        acknowledged
    }
}

fn still_open(checked: &mut Checked, ho: &Message<'_>, now: Option<&str>) {
    let today = now.and_then(|now| now.get(..8));
    let exp = ho
        .text("exp")
        .filter(|exp| has_passed(Some(exp), now))
        .map(|exp| ("exp", exp));
    let due = || {
        ho.text("due")
            .filter(|due| today.is_some_and(|today| today > *due))
            .map(|due| ("due", due))
    };
    match exp.or_else(due) {
        Some((key, limit)) => {
            let text = format!(
                "{}: orphaned, open past {key}={limit} with no DN, UN, FL or acknowledged CX",
                ho.id
            );
            checked.problem(Problem::new(Code::Orphaned, text).slot(key).want(limit));
        }
        None => checked.note(Problem::new(Code::Open, format!("{}: open", ho.id))),
    }
}
