//! A keeper in memory, for tests and simulation. It keeps the promises of the port as long as the process lives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use wilco_core::journal::{EntryKind, Row};
use wilco_core::write::{Decide, Durable, TwinGuard};
use wilco_core::{Act, ActId, Clock, State, Timestamp, Written, purge};

use crate::clock::StoreClock;
use crate::erase;
use crate::judge::{Earlier, Findings, Judged, Sealed, Standing, judge, sealed};
use crate::page::{self, Place};
use crate::{Counters, Filter, Keeper, Page, Purged, StoreError, ThreadLine};

/// Keeps everything in memory.
pub struct MemoryKeeper {
    clock: StoreClock,
    closed: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    acts: BTreeMap<ActId, Act>,
    journal: BTreeMap<ActId, Vec<Row>>,
    handoffs: HashMap<(String, String), ActId>,
    messages: HashMap<(String, String), (ActId, u64)>,
    undos: HashMap<ActId, ActId>,
    alike: HashMap<String, BTreeSet<ActId>>,
    lines: HashMap<String, BTreeSet<Place>>,
    counters: Counters,
}

impl MemoryKeeper {
    /// An empty store on this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> MemoryKeeper {
        MemoryKeeper {
            clock: StoreClock::new(clock, Timestamp(i64::MIN)),
            closed: AtomicBool::new(false),
            kept: Mutex::new(Kept::default()),
        }
    }

    // A panic while the lock is held can only come from `decide`, before anything was changed: the data is whole.
    fn kept(&self) -> Result<MutexGuard<'_, Kept>, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Down("it was closed".to_owned()));
        }
        Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_now(&self, decide: &Decide, erases: bool) -> Result<Written, StoreError> {
        let mut kept = self.kept()?;
        let write = {
            let at = self.clock.next()?;
            sealed(decide(at), at, erases)?
        };
        let found = Findings::gather(&write, &*kept)?;
        match judge(&write, &found, &Earlier::default()) {
            Judged::Fits => {}
            Judged::Refused(written) => {
                kept.counters.refused += 1;
                return Ok(written);
            }
            Judged::Wrong(error) => return Err(error),
            Judged::Wait => return Err(StoreError::Busy),
        }
        if !write.acts.is_empty() {
            kept.apply(&write);
            kept.counters.writes += 1;
            kept.counters.flushes += 1;
        }
        Ok(Written::Advanced {
            at: write.at,
            durable: Durable::attest(&write.acts),
            acts: write.acts,
        })
    }

    fn select(&self, wanted: impl Fn(&Act) -> bool) -> Result<Vec<Act>, StoreError> {
        Ok(self
            .kept()?
            .acts
            .values()
            .filter(|a| wanted(a))
            .cloned()
            .collect())
    }
}

impl Kept {
    fn apply(&mut self, write: &Sealed) {
        for act in &write.acts {
            let Some(before) = self.acts.get(&act.act_id) else {
                continue;
            };
            if let Some(of) = before.undo_of
                && self.undos.get(&of) == Some(&act.act_id)
            {
                self.undos.remove(&of);
            }
            if let Some(alike) = before.likeness.as_ref().and_then(|l| self.alike.get_mut(l)) {
                alike.remove(&act.act_id);
            }
        }
        for (act, rows) in write.acts.iter().zip(&write.rows) {
            let name = (act.thread.clone(), act.handoff.id.clone());
            self.handoffs.insert(name, act.act_id);
            if let Some(of) = act.undo_of {
                self.undos.insert(of, act.act_id);
            }
            if let Some(likeness) = &act.likeness {
                let alike = self.alike.entry(likeness.clone()).or_default();
                alike.insert(act.act_id);
            }
            for row in rows {
                if let Some(id) = &row.message_id {
                    let name = (act.thread.clone(), id.clone());
                    self.messages.insert(name, (act.act_id, row.seq));
                }
                if row.kind == EntryKind::Line {
                    let lines = self.lines.entry(act.thread.clone()).or_default();
                    lines.insert(Place {
                        at: row.at,
                        act_id: act.act_id,
                        seq: row.seq,
                    });
                }
            }
            let journal = self.journal.entry(act.act_id).or_default();
            if write.erases {
                journal.iter_mut().for_each(|row| row.body = None);
            }
            journal.extend(rows.iter().cloned());
            self.acts.insert(act.act_id, act.clone());
        }
    }

    fn row(&self, id: ActId, seq: u64) -> Option<&Row> {
        self.journal.get(&id)?.iter().find(|r| r.seq == seq)
    }
}

impl Standing for Kept {
    fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        Ok(self.acts.get(&id).cloned())
    }

    fn handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        let id = self.handoffs.get(&(thread.to_owned(), handoff_id.to_owned()));
        Ok(id.and_then(|id| self.acts.get(id)).cloned())
    }

    fn undoing(&self, of: ActId) -> Option<ActId> {
        self.undos.get(&of).copied()
    }

    fn twin(&self, guard: &TwinGuard) -> Result<Option<Act>, StoreError> {
        let undone = |id: &ActId| {
            let undo = self.undos.get(id).and_then(|undo| self.acts.get(undo));
            undo.is_some_and(|undo| undo.state() == State::Done)
        };
        let alike = self.alike.get(&guard.likeness).into_iter().flatten();
        let twin = alike.filter_map(|id| self.acts.get(id)).find(|act| {
            act.created_at >= guard.since
                && guard.counts(act)
                && !guard.except.contains(&act.act_id)
                && !undone(&act.act_id)
        });
        Ok(twin.cloned())
    }

    fn message_taken(&self, thread: &str, message_id: &str) -> bool {
        self.messages
            .contains_key(&(thread.to_owned(), message_id.to_owned()))
    }
}

#[async_trait]
impl Keeper for MemoryKeeper {
    async fn write(&self, decide: Decide) -> Result<Written, StoreError> {
        self.write_now(&decide, false)
    }

    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        Ok(self.kept()?.acts.get(&id).cloned())
    }

    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        self.kept()?.handoff(thread, handoff_id)
    }

    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError> {
        let kept = self.kept()?;
        let place = kept.messages.get(&(thread.to_owned(), message_id.to_owned()));
        Ok(place.and_then(|(id, seq)| {
            let act = kept.acts.get(id)?.clone();
            Some((act, kept.row(*id, *seq)?.body.clone()))
        }))
    }

    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError> {
        let kept = self.kept()?;
        Ok(kept.undos.get(&of).and_then(|id| kept.acts.get(id)).cloned())
    }

    async fn acts(&self, filter: &Filter) -> Result<Page<Act>, StoreError> {
        let before = page::act_token(filter.page_token.as_deref())?;
        let size = page::size(filter.limit);
        let mut acts = self.select(|a| {
            before.is_none_or(|before| a.act_id < before)
                && (filter.states.is_empty() || filter.states.contains(&a.state()))
                && filter.ask.as_ref().is_none_or(|ask| *ask == a.handoff.ask)
                && filter.thread.as_ref().is_none_or(|thread| *thread == a.thread)
                && filter
                    .senders
                    .as_ref()
                    .is_none_or(|s| s.contains(&a.handoff.sender))
        })?;
        acts.reverse();
        Ok(page::cut(acts, size, |a| a.act_id.to_string()))
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError> {
        let mut acts = self.select(|a| a.due_at().is_some_and(|due| due <= now))?;
        acts.sort_by_key(|a| (a.due_at(), a.act_id));
        acts.truncate(limit as usize);
        Ok(acts)
    }

    async fn claimed(&self) -> Result<Vec<Act>, StoreError> {
        self.select(|a| a.execution().is_some())
    }

    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError> {
        let mut acts = self.select(|a| a.thread == thread && a.due_at().is_some_and(|due| due <= now))?;
        acts.sort_by_key(|a| (a.due_at(), a.act_id));
        Ok(acts)
    }

    async fn thread(
        &self,
        thread: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<ThreadLine>, StoreError> {
        let after = after.map(Place::from_token).transpose()?;
        let size = page::size(limit);
        let kept = self.kept()?;
        let places = kept.lines.get(thread).into_iter().flatten();
        let lines = places
            .filter(|place| after.is_none_or(|after| **place > after))
            .take(size as usize + 1)
            .map(|place| ThreadLine {
                at: place.at,
                act_id: place.act_id,
                seq: place.seq,
                line: kept.row(place.act_id, place.seq).and_then(|r| r.body.clone()),
            })
            .collect();
        Ok(page::cut(lines, size, |line| line.place().token()))
    }

    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError> {
        Ok(self.kept()?.journal.get(&id).cloned().unwrap_or_default())
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        let kept = self.kept()?;
        let count = |state| kept.acts.values().filter(|a| a.state() == state).count();
        Ok(State::ALL.into_iter().map(|s| (s, count(s) as u64)).collect())
    }

    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError> {
        let mut old = self.select(|a| purge::erasable_since(a).is_some_and(|since| since < older_than))?;
        old.sort_by_key(|a| (a.updated_at, a.act_id));
        let size = page::size(limit) as usize;
        let mut done = Purged {
            more: old.len() > size,
            ..Purged::default()
        };
        for act in old.into_iter().take(size) {
            let written = self.write_now(&erase::decision(act, older_than), true);
            erase::count(&mut done, written)?;
        }
        Ok(done)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn clock_behind_s(&self) -> i64 {
        self.clock.behind_s()
    }

    fn acknowledge_clock(&self) {
        self.clock.acknowledge();
    }

    fn counters(&self) -> Counters {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).counters
    }

    fn healthy(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.clock.trusted()
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
