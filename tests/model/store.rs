//! The store of the model: one row, its thread, and writes that are conditional on the row's version.
//!
//! An act is a big value, so a state of the model holds only a number for it ([`Kept`]); the values rest here, each
//! once. What a step makes of a row depends on the row, the step and the instant alone, because the core's decisions are
//! pure: it is worked out once by the real functions and remembered.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use wilco_core::journal::{EntryKind, sha256_hex};
use wilco_core::write::Expect;
use wilco_core::{Act, Change, Stage, State, Timestamp};

use crate::words::{Messenger, Owner, at};

/// Everything the store holds at one moment, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kept(pub u32);

/// A line, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub u16);

/// What the store holds: the act, and the thread it is told in.
#[derive(Debug, Clone, Default)]
pub struct Holding {
    /// The row.
    pub act: Option<Act>,
    /// The lines of the thread, in order.
    pub lines: Vec<String>,
    /// Lines kept outside the thread.
    pub outside: Vec<String>,
    /// Message ids that are taken.
    pub ids: Vec<String>,
}

/// What the rules of the model ask of a row most often.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Its state; `None` where there is no act.
    pub state: Option<State>,
    /// Which statement is the last.
    pub attempt: u32,
    /// The last statement.
    pub statement: Option<Line>,
    /// The line that closed it.
    pub closing: Option<Line>,
    /// When the statement ends.
    pub expires_at: Timestamp,
    /// When the handoff ends.
    pub limit: Timestamp,
    /// When recovery must look.
    pub due_at: Option<Timestamp>,
    /// The claim's holder.
    pub holder: Option<Messenger>,
    /// No byte leaves at or after this instant.
    pub not_after: Timestamp,
    /// Whether an earlier owner's call may still be going on.
    pub others_open: bool,
    /// Whether somebody who lost the claim reported that it was done.
    pub heard: bool,
    /// How many lines of the thread close the handoff.
    pub closers: usize,
    /// Whether it is a tombstone.
    pub tombstone: bool,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// It is on stable storage.
    Advanced(Kept),
    /// The row was not at the expected version; nothing was written.
    Stale,
    /// A message id was taken; nothing was written.
    Taken,
    /// The decision was to write nothing.
    Nothing,
    /// The decision was a refusal; nothing was written.
    Refused,
}

/// What was held once, and is held now in some state of the model.
pub struct Shelf {
    held: RwLock<Vec<Arc<(Holding, Facts)>>>,
    numbers: RwLock<HashMap<String, Kept>>,
    lines: RwLock<Vec<String>>,
}

/// The empty store.
pub const EMPTY: Kept = Kept(0);

impl Shelf {
    pub fn new() -> Shelf {
        let shelf = Shelf {
            held: RwLock::default(),
            numbers: RwLock::default(),
            lines: RwLock::default(),
        };
        assert_eq!(shelf.number(Holding::default()), EMPTY);
        shelf
    }

    /// How many different contents the store ever had.
    pub fn len(&self) -> usize {
        read(&self.held).len()
    }

    pub fn get(&self, kept: Kept) -> Arc<(Holding, Facts)> {
        Arc::clone(&read(&self.held)[kept.0 as usize])
    }

    pub fn facts(&self, kept: Kept) -> Facts {
        read(&self.held)[kept.0 as usize].1
    }

    pub fn line(&self, line: Line) -> String {
        read(&self.lines)[line.0 as usize].clone()
    }

    pub fn line_number(&self, text: &str) -> Line {
        let find = |lines: &[String]| lines.iter().position(|l| l == text);
        if let Some(at) = find(&read(&self.lines)) {
            return Line(u16::try_from(at).expect("few lines"));
        }
        let mut lines = self.lines.write().expect("no panic while held");
        let at = find(&lines).unwrap_or_else(|| {
            lines.push(text.to_owned());
            lines.len() - 1
        });
        Line(u16::try_from(at).expect("few lines"))
    }

    /// Writes a change over what is held now. `checked` is false only in the mutant whose store forgets the versions.
    pub fn write(&self, read: Kept, on: Kept, change: Change, checked: bool) -> Wrote {
        let current = self.get(on);
        let (holding, _) = &*current;
        let there = match change.expect {
            Expect::Absent => holding.act.is_none(),
            Expect::Version(version) => holding.act.as_ref().is_some_and(|act| act.version == version),
        };
        if checked && !(there && read == on) {
            return Wrote::Stale;
        }
        let mut next = holding.clone();
        for entry in change.entries {
            if let Some(id) = entry.message_id {
                if next.ids.contains(&id) {
                    return Wrote::Taken;
                }
                next.ids.push(id);
            }
            match entry.kind {
                EntryKind::Line => next.lines.push(entry.body),
                EntryKind::Outside => next.outside.push(entry.body),
                EntryKind::CancelArrived | EntryKind::Event => {}
            }
        }
        next.ids.sort_unstable();
        next.act = Some(plain(change.act));
        Wrote::Advanced(self.number(next))
    }

    /// The number of a content.
    pub fn number(&self, holding: Holding) -> Kept {
        let name = sha256_hex(format!("{holding:?}").as_bytes());
        if let Some(kept) = read(&self.numbers).get(&name) {
            return *kept;
        }
        let facts = self.facts_of(&holding);
        let mut numbers = self.numbers.write().expect("no panic while held");
        *numbers.entry(name).or_insert_with(|| {
            let mut held = self.held.write().expect("no panic while held");
            held.push(Arc::new((holding, facts)));
            Kept(u32::try_from(held.len() - 1).expect("not that many"))
        })
    }

    fn facts_of(&self, holding: &Holding) -> Facts {
        let act = holding.act.as_ref();
        let offer = act.and_then(Act::offer);
        let execution = act.and_then(Act::execution);
        let claim = execution.map(|e| &e.claim);
        let closes = |line: &&String| {
            ["RW1 DN ", "RW1 UN ", "RW1 FL "]
                .iter()
                .any(|k| line.starts_with(k))
        };
        Facts {
            state: act.map(Act::state),
            attempt: act.map_or(0, |a| a.attempt),
            statement: offer.map(|o| self.line_number(&o.statement)),
            closing: act.and_then(Act::closed).map(|c| self.line_number(&c.line)),
            expires_at: offer.map_or(Timestamp::MAX, |o| o.expires_at),
            limit: act.map_or(Timestamp::MAX, |a| a.limit),
            due_at: act.and_then(Act::due_at),
            holder: claim.map(|c| Messenger {
                owner: Owner::named(&c.owner),
                epoch: u8::try_from(c.epoch).expect("few epochs"),
            }),
            not_after: claim.map_or(Timestamp::MAX, |c| c.not_after),
            others_open: execution.is_some_and(|e| e.progress.others_open),
            heard: execution.is_some_and(|e| e.progress.heard.is_some()),
            closers: holding.lines.iter().filter(closes).count(),
            tombstone: act.is_some_and(Act::is_tombstone),
        }
    }
}

impl Facts {
    /// Whether nothing more can happen to it.
    pub fn is_final(&self) -> bool {
        self.state.is_some_and(State::is_final)
    }

    /// Whether it is claimed and not closed.
    pub fn is_claimed(&self) -> bool {
        matches!(self.state, Some(State::Executing | State::InDoubt))
    }
}

/// The act without what no decision of the model depends on: how often it was written and looked up (the pace is even, and
/// nobody is called), the words for operators, and when it was closed. Two rows that differ in nothing else are one. The
/// version is one of these: a write is conditional on the row being the one that was read, which is what versions are for.
fn plain(mut act: Act) -> Act {
    act.version = 1;
    match &mut act.stage {
        Stage::Executing(e) | Stage::InDoubt(e) => {
            e.progress.lookups = 0;
            e.progress.reason.clear();
        }
        Stage::Done(c) | Stage::Failed(c) | Stage::Cancelled(c) | Stage::Refused(c) => c.closed_at = at(0),
        Stage::Prepared(_) | Stage::Held(_) | Stage::Lapsed(..) => {}
    }
    act
}

/// The current or last statement's own id.
pub fn rb_id(statement: &str) -> &str {
    statement.split(' ').nth(2).unwrap_or_default()
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().expect("no panic while held")
}
