//! The one writer: it owns the connection that writes, and makes many writes durable with one flush.
//!
//! ```text
//!  write ─┐                     ┌ decide each, with the instant
//!  write ─┼─ queue ─► BEGIN ────┤ judge each against those before it ──► write them all; COMMIT ──► answer
//!  write ─┘                     └ (refused ones are left out)                  │    │
//!                                                                      refused │    │ any other error
//!                                          look closer, once: ROLLBACK and ◄───┘    ▼
//!                                          BEGIN, reading what stands             doubt
//! ```
//!
//! The first try asks nothing: it writes, and the database refuses what is stale or taken. Only then is the batch undone,
//! decided anew and checked member by member, so that the refused are left out and touch no other. Nobody is answered
//! before COMMIT has returned. What happens when it does not return well is told in [`super::doubt`].

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Error, ffi};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wilco_core::write::{Decide, Durable};
use wilco_core::{Expect, Written};

use super::line::WriteConnection;
use super::lock::FolderLock;
use super::{Shared, sql};
use crate::StoreError;
use crate::judge::{Earlier, Findings, Judged, Sealed, judge, sealed};
use crate::port::down;
use crate::record::{ActOut, ArrivalOut, GuardOut, RowOut};
use crate::seen::{Seen, Wanted};

/// The most writes made durable by one flush.
const MOST_MEMBERS: usize = 256;

/// A batch takes no further member once it holds so much text, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// A write waiting for its turn.
pub(super) struct Job {
    pub(super) decide: Decide,
    /// Whether what it changes loses its texts.
    pub(super) erases: bool,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(super) type Answer = Result<Written, StoreError>;

/// What becomes of a member of a batch.
pub(super) enum Fate {
    /// It is written with the batch.
    Write(Sealed),
    /// It is not; this is its answer once the batch stands.
    Answer(Answer),
    /// It waits for the next batch.
    Wait,
}

/// Where a batch went wrong.
pub(super) struct Trouble {
    pub(super) fates: Vec<Fate>,
    pub(super) problem: String,
    /// Whether COMMIT was asked for: only then can anything stand.
    pub(super) committing: bool,
}

/// How a transaction ended.
enum End {
    /// Everything to be written stands.
    Stands(Vec<Fate>),
    /// Something was refused that had not been looked at: nothing was written.
    LookCloser,
}

/// A batch as the database takes it.
#[derive(Default)]
struct Parcel {
    updates: Json,
    updated: i64,
    arrivals: Json,
    inserts: Json,
    rows: Json,
    guards: Json,
    latest: i64,
    reverses: bool,
    erased: Json,
}

pub(super) struct Writer {
    pub(super) connection: WriteConnection,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) waiting: VecDeque<Job>,
    pub(super) shared: Arc<Shared>,
    /// When to look again whether what stands can be read back, while it cannot.
    pub(super) look_again: Option<Instant>,
    /// The folder stays ours until the last write is made.
    pub(super) lock: Arc<FolderLock>,
}

impl Writer {
    /// Starts it on a thread of its own, where it waits for the disk without keeping anybody else from running. The answer
    /// comes once it has ended: an error, where it did not end well.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn start(self) -> std::io::Result<oneshot::Receiver<()>> {
        let (ended, end) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new()
            .name("wilco-writer".to_owned())
            .spawn(move || {
                runtime.block_on(self.run());
                // Who no longer waits for it need not know.
                let _ = ended.send(());
            })?;
        Ok(end)
    }

    /// Serves until the queue is closed and empty.
    async fn run(mut self) {
        // Should this thread die, nobody may take the store for a working one.
        let stopped = StopOnDrop(Arc::clone(&self.shared));
        loop {
            if self.waiting.is_empty() {
                let next = match self.look_again {
                    None => self.queue.recv().await,
                    Some(at) => tokio::select! {
                        next = self.queue.recv() => next,
                        () = tokio::time::sleep_until(at) => {
                            self.recover();
                            continue;
                        }
                    },
                };
                match next {
                    Some(job) => self.waiting.push_back(job),
                    None => break,
                }
            }
            let together = self.shared.faults.gathers();
            while self.waiting.len() + self.queue.len() < together {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if let Some(why) = self.shared.stopped() {
                for job in self.waiting.drain(..) {
                    answer(job, Err(StoreError::Down(why.clone())));
                }
                continue;
            }
            self.batch();
        }
        self.connection.close();
        drop(self.lock);
        drop(stopped);
    }

    fn batch(&mut self) {
        let mut jobs = Vec::new();
        let mut closer = false;
        loop {
            match self.transaction(&mut jobs, closer) {
                Ok(End::LookCloser) => closer = true,
                Ok(End::Stands(fates)) => return self.answer_all(jobs, fates),
                Err(trouble) => {
                    let fates = self.settle_doubt(trouble);
                    return self.answer_all(jobs, fates);
                }
            }
        }
    }

    fn transaction(&mut self, jobs: &mut Vec<Job>, closer: bool) -> Result<End, Trouble> {
        // Whoever came while the last batch was flushed comes along, and whoever comes while the lock is taken.
        self.gather(jobs);
        self.connection
            .run(sql::BEGIN, &[])
            .map_err(|e| Trouble::before(e, jobs))?;
        self.connection.in_transaction.store(true, Ordering::Release);
        wilco_failpoint::reach!("store.begun");
        if !closer {
            self.gather(jobs);
        }
        let decided = self.decide(jobs);
        let findings = if closer { Some(self.look(&decided)) } else { None };
        let (fates, parcel) = match findings {
            None => judge_all(decided, None),
            Some(Ok(standing)) => judge_all(decided, Some(&standing)),
            Some(Err(e)) => return Err(Trouble::before(e, jobs)),
        };
        if !fates.iter().any(|f| matches!(f, Fate::Write(_))) {
            return match self.connection.run(sql::ROLLBACK, &[]) {
                Ok(()) => Ok(End::Stands(fates)),
                Err(e) => Err(Trouble::at(e, fates, false)),
            };
        }
        match self.write(parcel) {
            Ok(true) => Ok(End::Stands(fates)),
            Ok(false) if closer => Err(Trouble {
                fates,
                problem: "the database refused what had been found in order".to_owned(),
                committing: false,
            }),
            Ok(false) => match self.connection.run(sql::ROLLBACK, &[]) {
                Ok(()) => Ok(End::LookCloser),
                Err(e) => Err(Trouble::at(e, fates, false)),
            },
            Err((problem, committing)) => Err(Trouble {
                fates,
                problem,
                committing,
            }),
        }
    }

    fn gather(&mut self, jobs: &mut Vec<Job>) {
        while jobs.len() < MOST_MEMBERS {
            let Some(job) = self.waiting.pop_front().or_else(|| self.queue.try_recv().ok()) else {
                break;
            };
            jobs.push(job);
        }
    }

    /// Each member's changes, decided with an instant of its own and sealed.
    fn decide(&mut self, jobs: &mut Vec<Job>) -> Vec<Result<Sealed, StoreError>> {
        let mut decided = Vec::with_capacity(jobs.len());
        let mut bytes = 0;
        for job in jobs.iter() {
            if bytes > MOST_BYTES {
                break;
            }
            let one = self.shared.clock.next().and_then(|at| {
                // A decision that panics must not take the writer with it.
                let changes = catch_unwind(AssertUnwindSafe(|| (job.decide)(at)));
                let changes = changes.map_err(|_| StoreError::Down("the decision panicked".to_owned()))?;
                sealed(changes, at, job.erases)
            });
            bytes += one.as_ref().map_or(0, Sealed::bytes);
            decided.push(one);
        }
        for job in jobs.drain(decided.len()..).rev() {
            self.waiting.push_front(job);
        }
        decided
    }

    /// Writes the parcel and commits; `false` where a member was stale or a name taken, and nothing was committed. An
    /// error says whether COMMIT may have been carried out.
    fn write(&mut self, parcel: Parcel) -> Result<bool, (String, bool)> {
        let before = |e: Error| (e.to_string(), false);
        if let Some(fault) = self.shared.faults.runs() {
            self.connection.run(fault, &[]).map_err(before)?;
        }
        if self.shared.faults.commit_fails() {
            self.connection.in_transaction.store(false, Ordering::Release);
        }
        if !parcel.erased.is_empty() {
            let erased = parcel.erased.close();
            for statement in sql::each(sql::ERASE) {
                self.connection.run(statement, &[&erased]).map_err(before)?;
            }
        }
        let updates = parcel.updates.close();
        if parcel.reverses {
            self.connection.run(sql::LET_GO, &[&updates]).map_err(before)?;
        }
        let (arrivals, inserts) = (parcel.arrivals.close(), parcel.inserts.close());
        let (rows, guards) = (parcel.rows.close(), parcel.guards.close());
        let values: [&dyn rusqlite::ToSql; 7] = [
            &updates,
            &parcel.updated,
            &arrivals,
            &inserts,
            &rows,
            &parcel.latest,
            &guards,
        ];
        for (done, statement) in sql::each(sql::WRITE).enumerate() {
            if done == sql::BEFORE_COMMIT {
                wilco_failpoint::reach!("store.committing");
            }
            match self.connection.run(statement, &values) {
                Ok(()) => {}
                Err(e) if done < sql::BEFORE_COMMIT && is_refusal(&e) => return Ok(false),
                Err(e) => return Err((e.to_string(), done >= sql::BEFORE_COMMIT)),
            }
        }
        if self.shared.faults.commit_answer_lost() {
            return Err(("the answer to COMMIT was lost".to_owned(), true));
        }
        wilco_failpoint::reach!("store.committed");
        self.shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// What stands in the way of these writes.
    fn look(&mut self, decided: &[Result<Sealed, StoreError>]) -> Result<Seen, String> {
        let wanted = Wanted::of(decided.iter().filter_map(|d| d.as_ref().ok()));
        let wanted = wanted.map_err(|e| e.to_string())?;
        let failed = |e: Error| e.to_string();
        let mut seen = Seen::default();
        let in_the_way: [&dyn rusqlite::ToSql; 3] = [&wanted.ids, &wanted.handoffs, &wanted.undos];
        self.connection
            .rows(sql::IN_THE_WAY, &in_the_way, |row| {
                seen.add_act(row);
                Ok(())
            })
            .map_err(failed)?;
        if let Some(guards) = &wanted.guards {
            self.connection
                .rows(sql::TWINS, &[guards], |row| {
                    seen.add_twin(row, &wanted);
                    Ok(())
                })
                .map_err(failed)?;
        }
        self.connection
            .rows(sql::MESSAGES_TAKEN, &[&wanted.messages], |row| {
                seen.add_message(row);
                Ok(())
            })
            .map_err(failed)?;
        Ok(seen)
    }

    fn answer_all(&mut self, jobs: Vec<Job>, fates: Vec<Fate>) {
        let counters = &self.shared.counters;
        let mut waiting = Vec::new();
        for (job, fate) in jobs.into_iter().zip(fates) {
            match fate {
                Fate::Write(write) => {
                    counters.writes.fetch_add(1, Ordering::Relaxed);
                    answer(job, Ok(advanced(write)));
                }
                Fate::Answer(given) => {
                    if matches!(given, Ok(Written::Stale { .. } | Written::Taken(_))) {
                        counters.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    answer(job, given);
                }
                Fate::Wait => waiting.push(job),
            }
        }
        for job in waiting.into_iter().rev() {
            self.waiting.push_front(job);
        }
    }
}

/// Only called with what stands on stable storage.
pub(super) fn advanced(write: Sealed) -> Written {
    Written::Advanced {
        at: write.at,
        durable: Durable::attest(&write.acts),
        acts: write.acts,
    }
}

impl Trouble {
    /// It went wrong before anything was decided or written.
    fn before(error: impl Display, jobs: &[Job]) -> Trouble {
        let fates = jobs.iter().map(|_| Fate::Answer(Err(down(&error)))).collect();
        Trouble::at(error, fates, false)
    }

    fn at(error: impl Display, fates: Vec<Fate>, committing: bool) -> Trouble {
        Trouble {
            fates,
            problem: error.to_string(),
            committing,
        }
    }
}

/// Judges each member against what stands (where somebody has looked) and against the members before it.
fn judge_all(decided: Vec<Result<Sealed, StoreError>>, standing: Option<&Seen>) -> (Vec<Fate>, Parcel) {
    let mut earlier = Earlier::default();
    let mut parcel = Parcel::default();
    let fates = decided
        .into_iter()
        .map(|write| {
            let judged = write.and_then(|write| {
                let found = match standing {
                    Some(seen) => Findings::gather(&write, seen)?,
                    None => Findings::default(),
                };
                let judged = judge(&write, &found, &earlier);
                if matches!(judged, Judged::Fits) {
                    parcel.add(&write)?;
                    earlier.add(&write);
                }
                Ok((write, judged))
            });
            match judged {
                // Nothing to write: it advances with the rest, and needs no flush.
                Ok((write, Judged::Fits)) if write.acts.is_empty() => Fate::Answer(Ok(advanced(write))),
                Ok((write, Judged::Fits)) => Fate::Write(write),
                Ok((_, Judged::Refused(written))) => Fate::Answer(Ok(written)),
                Ok((_, Judged::Wrong(e))) | Err(e) => Fate::Answer(Err(e)),
                Ok((_, Judged::Wait)) => Fate::Wait,
            }
        })
        .collect();
    (fates, parcel)
}

impl Parcel {
    /// Adds the whole write, or nothing of it.
    fn add(&mut self, write: &Sealed) -> Result<(), StoreError> {
        let (mut updates, mut arrivals) = (Vec::new(), Vec::new());
        let (mut inserts, mut rows) = (Vec::new(), Vec::new());
        let erased: Vec<_> = write
            .acts
            .iter()
            .filter(|_| write.erases)
            .map(|a| a.act_id)
            .collect();
        let guards = write.guards().map(|guard| GuardOut::new(0, guard, write.at));
        let guards: Vec<_> = guards.collect();
        let mut updated = 0;
        for (before, act, _) in write.changes() {
            match before.expect {
                Expect::Version(was) => {
                    updated += 1;
                    self.reverses |= act.undo_of.is_some();
                    updates.push(ActOut::changed(act, was, &before.head));
                    if !act.is_tombstone() {
                        arrivals.push(ArrivalOut::new(act));
                    }
                }
                Expect::Absent => inserts.push(ActOut::fresh(act)),
            }
        }
        for (act, sealed) in write.acts.iter().zip(&write.rows) {
            rows.extend(sealed.iter().map(|row| RowOut::new(act, row)));
        }
        let before = self.lengths();
        let added = self
            .updates
            .extend(&updates)
            .and_then(|()| self.arrivals.extend(&arrivals))
            .and_then(|()| self.inserts.extend(&inserts))
            .and_then(|()| self.rows.extend(&rows))
            .and_then(|()| self.guards.extend(&guards))
            .and_then(|()| self.erased.extend(&erased));
        if added.is_err() {
            self.updates.0.truncate(before[0]);
            self.arrivals.0.truncate(before[1]);
            self.inserts.0.truncate(before[2]);
            self.rows.0.truncate(before[3]);
            self.guards.0.truncate(before[4]);
            self.erased.0.truncate(before[5]);
            return added;
        }
        self.updated += updated;
        self.latest = self.latest.max(write.at.0);
        Ok(())
    }

    fn lengths(&self) -> [usize; 6] {
        [
            &self.updates,
            &self.arrivals,
            &self.inserts,
            &self.rows,
            &self.guards,
            &self.erased,
        ]
        .map(|json| json.0.len())
    }
}

/// A JSON array, written as it is gathered.
struct Json(Vec<u8>);

impl Default for Json {
    fn default() -> Json {
        Json(vec![b'['])
    }
}

impl Json {
    fn extend(&mut self, items: &[impl serde::Serialize]) -> Result<(), StoreError> {
        for item in items {
            if self.0.len() > 1 {
                self.0.push(b',');
            }
            serde_json::to_writer(&mut self.0, item)
                .map_err(|e| StoreError::Down(format!("an act cannot be written as JSON: {e}")))?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    fn close(mut self) -> String {
        self.0.push(b']');
        // serde_json writes nothing but UTF-8.
        String::from_utf8(self.0).unwrap_or_default()
    }
}

/// A name was taken, or an act was at another version.
fn is_refusal(error: &Error) -> bool {
    let code = error.sqlite_error().map(|e| e.extended_code);
    matches!(
        code,
        Some(
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_CHECK
        )
    )
}

// A caller that hung up does not want to know.
fn answer(job: Job, given: Answer) {
    let _ = job.answer.send(given);
}

struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop("the writer has ended");
    }
}
