//! Whether the changes of one write may be made: one order of refusals for every keeper.
//!
//! A keeper says what it holds ([`Standing`]), [`Findings`] are what of that stands in the way, and [`judge`] turns them
//! into the one answer. Where a keeper makes several writes in one transaction, [`Earlier`] holds what the writes before this
//! one have already changed in it.

use std::collections::{HashMap, HashSet};

use wilco_core::journal::{Row, seal};
use wilco_core::write::{Taken, TwinGuard};
use wilco_core::{Act, ActId, Change, Expect, Timestamp, Written};

use crate::StoreError;

/// One write's changes, sealed: each with its place in its act's chain.
pub(crate) struct Sealed {
    /// What each act is made from.
    pub(crate) before: Vec<Before>,
    /// The acts as they will stand, in the order of the changes.
    pub(crate) acts: Vec<Act>,
    /// The journal rows of each.
    pub(crate) rows: Vec<Vec<Row>>,
    /// The instant they were decided with.
    pub(crate) at: Timestamp,
    /// Whether the bodies their journals held before go with it, and the lines of their handoffs.
    pub(crate) erases: bool,
}

/// What a change is made from, and under which conditions.
pub(crate) struct Before {
    pub(crate) expect: Expect,
    seq: u64,
    /// The journal's head; empty for an act that is new.
    pub(crate) head: String,
    pub(crate) unless_twin: Option<TwinGuard>,
}

impl Sealed {
    /// Each change: what it is made from, the act as it will stand, its journal rows.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Before, &Act, &[Row])> {
        let acts = self.before.iter().zip(&self.acts);
        acts.zip(&self.rows)
            .map(|((before, act), rows)| (before, act, rows.as_slice()))
    }

    /// The acts that must not stand beside it.
    pub(crate) fn guards(&self) -> impl Iterator<Item = &TwinGuard> {
        self.before.iter().filter_map(|b| b.unless_twin.as_ref())
    }

    /// About how much text it writes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let offers = self.acts.iter().filter_map(|a| a.offer());
        let stated: usize = offers
            .map(|o| o.frozen.request.body.len() + o.statement.len())
            .sum();
        let rows = self.rows.iter().flatten().filter_map(|r| r.body.as_ref());
        stated + rows.map(String::len).sum::<usize>() + 1024 * self.acts.len()
    }
}

/// What a keeper holds, as far as it bears on a write. Each answers an error where the row makes no sense.
pub(crate) trait Standing {
    /// The act with this id.
    fn act(&self, id: ActId) -> Result<Option<Act>, StoreError>;
    /// The act that holds this handoff id in this thread.
    fn handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError>;
    /// The act that reverses `of`.
    fn undoing(&self, of: ActId) -> Option<ActId>;
    /// The earliest of the acts this guard is against, if one stands.
    fn twin(&self, guard: &TwinGuard) -> Result<Option<Act>, StoreError>;
    /// Whether this message id is taken in this thread.
    fn message_taken(&self, thread: &str, message_id: &str) -> bool;
}

/// What stands in the way of each change, by its index in the write. Empty where nobody has looked.
#[derive(Default)]
pub(crate) struct Findings {
    /// The act is not at the expected version; as it stands, if it does.
    stale: HashMap<usize, Option<Box<Act>>>,
    /// The act is at the expected version, but this column is not what the change was made from.
    misfit: HashMap<usize, &'static str>,
    /// The act that holds the handoff's id.
    handoff: HashMap<usize, Box<Act>>,
    /// The act that already reverses the same one.
    undo: HashMap<usize, ActId>,
    /// A likely twin.
    twin: HashMap<usize, Box<Act>>,
    /// Message ids that are taken.
    messages: HashSet<(usize, String)>,
}

impl Findings {
    /// What stands in the way of `write`.
    ///
    /// # Errors
    /// `Row` when a row that bears on it makes no sense.
    pub(crate) fn gather(write: &Sealed, standing: &dyn Standing) -> Result<Findings, StoreError> {
        let mut found = Findings::default();
        for (i, (before, act, rows)) in write.changes().enumerate() {
            let current = standing.act(act.act_id)?;
            match (before.expect, current) {
                (Expect::Absent, None) => {}
                (Expect::Version(expected), Some(current)) if current.version == expected => {
                    if let Some(column) = misfit(&current, before, act) {
                        found.misfit.insert(i, column);
                    }
                }
                (_, current) => {
                    found.stale.insert(i, current.map(Box::new));
                }
            }
            if before.expect == Expect::Absent
                && let Some(holder) = standing.handoff(&act.thread, &act.handoff.id)?
            {
                found.handoff.insert(i, Box::new(holder));
            }
            if let Some(holder) = act.undo_of.and_then(|of| standing.undoing(of)) {
                found.undo.insert(i, holder);
            }
            if let Some(guard) = &before.unless_twin
                && let Some(twin) = standing.twin(guard)?
            {
                found.twin.insert(i, Box::new(twin));
            }
            for id in rows.iter().filter_map(|r| r.message_id.as_ref()) {
                if standing.message_taken(&act.thread, id) {
                    found.messages.insert((i, id.clone()));
                }
            }
        }
        Ok(found)
    }
}

/// What the writes before this one have touched in the same transaction: acts, and names given out.
#[derive(Default)]
pub(crate) struct Earlier {
    acts: HashSet<ActId>,
    handoffs: HashSet<(String, String)>,
    messages: HashSet<(String, String)>,
    undos: HashSet<ActId>,
    likenesses: HashSet<String>,
}

/// What is to be done with a write.
pub(crate) enum Judged {
    /// Nothing stands in its way.
    Fits,
    /// Nothing of it may be written.
    Refused(Written),
    /// It meets a write of the same transaction: it waits for the next one, when that write stands or does not.
    Wait,
    /// It makes no sense.
    Wrong(StoreError),
}

/// Seals what was decided at `at`, where it `erases` what came before, after checking that it makes sense by itself.
///
/// # Errors
/// `Row` when one write changes an act twice, gives a name out twice, or holds a value no keeper can keep.
pub(crate) fn sealed(changes: Vec<Change>, at: Timestamp, erases: bool) -> Result<Sealed, StoreError> {
    make_sense(&changes)?;
    let mut sealed = Sealed {
        before: Vec::with_capacity(changes.len()),
        acts: Vec::with_capacity(changes.len()),
        rows: Vec::with_capacity(changes.len()),
        at,
        erases,
    };
    for change in changes {
        // The act is moved, not copied: it holds some hundred strings.
        let Change {
            expect,
            mut act,
            entries,
            unless_twin,
        } = change;
        if expect == Expect::Absent {
            act.version = 0;
            act.seq = 0;
            act.head = String::new();
        }
        sealed.before.push(Before {
            expect,
            seq: act.seq,
            head: act.head.clone(),
            unless_twin,
        });
        sealed.rows.push(seal(&mut act, &entries, at));
        sealed.acts.push(act);
    }
    Ok(sealed)
}

/// The one answer to a write. The first change that is refused decides; within a change the version comes first,
/// then the handoff's id, then the reversal, then the twin, then the message ids. What a write itself changes does not
/// bear on its twins: they are those that stood before it.
pub(crate) fn judge(write: &Sealed, found: &Findings, earlier: &Earlier) -> Judged {
    for (i, (_, act, rows)) in write.changes().enumerate() {
        let id = act.act_id;
        if let Some(current) = found.stale.get(&i) {
            return stale(id, current.clone());
        }
        if let Some(column) = found.misfit.get(&i) {
            return Judged::Wrong(StoreError::Row {
                table: "acts",
                column,
                row: id.to_string(),
                problem: "the change was not made from the row as it stands".to_owned(),
            });
        }
        if let Some(holder) = found.handoff.get(&i) {
            return taken(Taken::Handoff(holder.clone()));
        }
        if let Some(of) = act.undo_of
            && let Some(holder) = found.undo.get(&i)
            && *holder != id
            && !lets_go(write, *holder, of)
        {
            return taken(Taken::Undo { of });
        }
        if let Some(twin) = found.twin.get(&i) {
            return taken(Taken::Twin(twin.clone()));
        }
        for message_id in rows.iter().filter_map(|r| r.message_id.as_ref()) {
            if found.messages.contains(&(i, message_id.clone())) {
                return taken(Taken::Message {
                    message_id: message_id.clone(),
                });
            }
        }
    }
    if earlier.meets(write) {
        return Judged::Wait;
    }
    Judged::Fits
}

impl Earlier {
    /// Takes a write that fits into account for those that follow.
    pub(crate) fn add(&mut self, write: &Sealed) {
        for (before, act, rows) in write.changes() {
            self.acts.insert(act.act_id);
            self.undos.extend(act.undo_of);
            self.likenesses.extend(act.likeness.clone());
            if before.expect == Expect::Absent {
                self.handoffs.insert((act.thread.clone(), act.handoff.id.clone()));
            }
            for message_id in rows.iter().filter_map(|r| r.message_id.as_ref()) {
                self.messages.insert((act.thread.clone(), message_id.clone()));
            }
        }
    }

    /// Whether the write touches an act or wants a name that one before it did, or is not to be made beside an act that
    /// is like one of those.
    fn meets(&self, write: &Sealed) -> bool {
        write.changes().any(|(before, act, rows)| {
            let name = |id: &str| (act.thread.clone(), id.to_owned());
            let mut messages = rows.iter().filter_map(|r| r.message_id.as_ref());
            self.acts.contains(&act.act_id)
                || act.undo_of.is_some_and(|of| self.undos.contains(&of))
                || (before.expect == Expect::Absent && self.handoffs.contains(&name(&act.handoff.id)))
                || before
                    .unless_twin
                    .as_ref()
                    .is_some_and(|guard| self.likenesses.contains(&guard.likeness))
                || messages.any(|id| self.messages.contains(&name(id)))
        })
    }
}

/// The holder no longer reverses `of` once this write is made.
fn lets_go(write: &Sealed, holder: ActId, of: ActId) -> bool {
    let here = write.acts.iter().find(|a| a.act_id == holder);
    here.is_some_and(|act| act.undo_of != Some(of))
}

/// The column in which a change differs from the row it says it was made from.
fn misfit(current: &Act, before: &Before, act: &Act) -> Option<&'static str> {
    let columns = [
        ("seq", current.seq == before.seq),
        ("head", current.head == before.head),
        ("thread", current.thread == act.thread),
        ("handoff_id", current.handoff.id == act.handoff.id),
    ];
    columns.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
}

fn stale(act_id: ActId, current: Option<Box<Act>>) -> Judged {
    Judged::Refused(Written::Stale { act_id, current })
}

fn taken(name: Taken) -> Judged {
    Judged::Refused(Written::Taken(name))
}

fn make_sense(changes: &[Change]) -> Result<(), StoreError> {
    let mut acts = HashSet::new();
    let mut handoffs = HashSet::new();
    let mut undos = HashSet::new();
    let mut messages = HashSet::new();
    for change in changes {
        let act = &change.act;
        let wrong = |table, column, problem: &str| StoreError::Row {
            table,
            column,
            row: act.act_id.to_string(),
            problem: problem.to_owned(),
        };
        if let Expect::Version(expected) = change.expect
            && act.version != expected
        {
            return Err(wrong(
                "acts",
                "version",
                "the change expects another version than it holds",
            ));
        }
        if !acts.insert(act.act_id) {
            return Err(wrong("acts", "act_id", "one write changes the act twice"));
        }
        if !handoffs.insert((&act.thread, &act.handoff.id)) {
            return Err(wrong("acts", "handoff_id", "one write holds the handoff twice"));
        }
        if act.undo_of.is_some_and(|of| !undos.insert(of)) {
            return Err(wrong("acts", "undo_of", "one write reverses the same act twice"));
        }
        for id in change.entries.iter().filter_map(|e| e.message_id.as_ref()) {
            if !messages.insert((&act.thread, id)) {
                return Err(wrong("journal", "message_id", "one write gives the id out twice"));
            }
        }
        keepable(change).map_err(|(table, column, problem)| wrong(table, column, problem))?;
    }
    Ok(())
}

/// Neither database keeps a NUL in text, and both count in signed 64-bit numbers.
fn keepable(change: &Change) -> Result<(), (&'static str, &'static str, &'static str)> {
    const NUL: &str = "text with a NUL character cannot be kept";
    let act = &change.act;
    let texts = [
        ("thread", act.thread.as_str()),
        ("handoff_id", &act.handoff.id),
        ("ho_line", &act.handoff.line),
        ("sender", &act.handoff.sender),
        ("receiver", &act.handoff.receiver),
        ("item", &act.handoff.item),
        ("ask", &act.handoff.ask),
        ("profile", &act.handoff.profile),
        ("principal", &act.principal),
        ("released_by", act.released_by.as_deref().unwrap_or("")),
        ("likeness", act.likeness.as_deref().unwrap_or("")),
        (
            "profile_digest",
            act.offer().map_or("", |o| o.frozen.profile_digest.as_str()),
        ),
    ];
    if let Some((column, _)) = texts.into_iter().find(|(_, text)| text.contains('\0')) {
        return Err(("acts", column, NUL));
    }
    for entry in &change.entries {
        let texts = [
            ("message_id", entry.message_id.as_deref().unwrap_or("")),
            ("body", &entry.body),
            ("principal", &entry.principal),
        ];
        if let Some((column, _)) = texts.into_iter().find(|(_, text)| text.contains('\0')) {
            return Err(("journal", column, NUL));
        }
    }
    const ROOM: u64 = i64::MAX as u64 - u32::MAX as u64;
    if act.version > ROOM || act.seq > ROOM {
        return Err(("acts", "version", "the number is out of range"));
    }
    Ok(())
}
