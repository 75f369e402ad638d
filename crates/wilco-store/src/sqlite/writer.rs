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
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use sqlx::error::ErrorKind;
use sqlx::{Either, Executor};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wilco_core::write::{Decide, Durable};
use wilco_core::{Expect, Written};

use super::open::WriteConnection;
use super::{Shared, down, sql};
use crate::StoreError;
use crate::judge::{Earlier, Findings, Judged, Sealed, judge, sealed};
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
    pub(super) lock: Arc<File>,
}

impl Writer {
    /// Serves until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        // Should this task die, nobody may take the store for a working one.
        let stopped = StopOnDrop(Arc::clone(&self.shared));
        loop {
            if self.waiting.is_empty() {
                let next = match self.look_again {
                    None => self.queue.recv().await,
                    Some(at) => tokio::select! {
                        next = self.queue.recv() => next,
                        () = tokio::time::sleep_until(at) => {
                            self.recover().await;
                            continue;
                        }
                    },
                };
                match next {
                    Some(job) => self.waiting.push_back(job),
                    None => break,
                }
            }
            if let Some(why) = self.shared.stopped() {
                for job in self.waiting.drain(..) {
                    answer(job, Err(StoreError::Down(why.clone())));
                }
                continue;
            }
            self.batch().await;
        }
        self.connection.close().await;
        drop(self.lock);
        drop(stopped);
    }

    async fn batch(&mut self) {
        let mut jobs = Vec::new();
        let mut closer = false;
        loop {
            match self.transaction(&mut jobs, closer).await {
                Ok(End::LookCloser) => closer = true,
                Ok(End::Stands(fates)) => return self.answer_all(jobs, fates),
                Err(trouble) => {
                    let fates = self.settle_doubt(trouble).await;
                    return self.answer_all(jobs, fates);
                }
            }
        }
    }

    async fn transaction(&mut self, jobs: &mut Vec<Job>, closer: bool) -> Result<End, Trouble> {
        // Whoever came while the last batch was flushed comes along, and whoever comes while the lock is taken.
        self.gather(jobs);
        self.run_sql(sql::BEGIN)
            .await
            .map_err(|e| Trouble::before(&e, jobs))?;
        self.connection.in_transaction.store(true, Ordering::Release);
        wilco_failpoint::reach!("store.begun");
        if !closer {
            self.gather(jobs);
        }
        let decided = self.decide(jobs);
        let findings = if closer {
            Some(self.look(&decided).await)
        } else {
            None
        };
        let (fates, parcel) = match findings {
            None => judge_all(decided, None),
            Some(Ok(standing)) => judge_all(decided, Some(&standing)),
            Some(Err(e)) => return Err(Trouble::before(&e, jobs)),
        };
        if !fates.iter().any(|f| matches!(f, Fate::Write(_))) {
            return match self.run_sql(sql::ROLLBACK).await {
                Ok(()) => Ok(End::Stands(fates)),
                Err(e) => Err(Trouble::at(&e, fates, false)),
            };
        }
        match self.write(parcel).await {
            Ok(true) => Ok(End::Stands(fates)),
            Ok(false) if closer => Err(Trouble {
                fates,
                problem: "the database refused what had been found in order".to_owned(),
                committing: false,
            }),
            Ok(false) => match self.run_sql(sql::ROLLBACK).await {
                Ok(()) => Ok(End::LookCloser),
                Err(e) => Err(Trouble::at(&e, fates, false)),
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
    async fn write(&mut self, parcel: Parcel) -> Result<bool, (String, bool)> {
        let before = |e: sqlx::Error| (e.to_string(), false);
        if let Some(fault) = self.shared.faults.runs() {
            self.run_sql(fault).await.map_err(before)?;
        }
        if self.shared.faults.commit_fails() {
            self.connection.in_transaction.store(false, Ordering::Release);
        }
        if !parcel.erased.is_empty() {
            let erase = sqlx::query(sql::ERASE).bind(parcel.erased.close());
            erase.execute(&mut self.connection.db).await.map_err(before)?;
        }
        let updates = parcel.updates.close();
        if parcel.reverses {
            let let_go = sqlx::query(sql::LET_GO).bind(updates.clone());
            let let_go = let_go.execute(&mut self.connection.db).await;
            let_go.map_err(before)?;
        }
        let query = sqlx::query(sql::WRITE)
            .bind(updates)
            .bind(parcel.updated)
            .bind(parcel.arrivals.close())
            .bind(parcel.inserts.close())
            .bind(parcel.rows.close())
            .bind(parcel.latest)
            .bind(parcel.guards.close());
        let mut steps = self.connection.db.fetch_many(query);
        let mut done = 0;
        while let Some(step) = steps.next().await {
            match step {
                Ok(Either::Left(_)) => {
                    done += 1;
                    if done == sql::BEFORE_COMMIT {
                        wilco_failpoint::reach!("store.committing");
                    }
                }
                Ok(Either::Right(_)) => {}
                Err(e) if done < sql::BEFORE_COMMIT && is_refusal(&e) => return Ok(false),
                Err(e) => {
                    // Only the database itself can say that it stopped at an earlier statement.
                    let earlier = done < sql::BEFORE_COMMIT && e.as_database_error().is_some();
                    return Err((e.to_string(), !earlier));
                }
            }
        }
        drop(steps);
        if done != sql::BEFORE_COMMIT + 1 {
            return Err((format!("the batch ended after {done} statements"), true));
        }
        if self.shared.faults.commit_answer_lost() {
            return Err(("the answer to COMMIT was lost".to_owned(), true));
        }
        wilco_failpoint::reach!("store.committed");
        self.shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// What stands in the way of these writes.
    async fn look(&mut self, decided: &[Result<Sealed, StoreError>]) -> Result<Seen, sqlx::Error> {
        let wanted = Wanted::of(decided.iter().filter_map(|d| d.as_ref().ok()));
        let wanted = wanted.map_err(|e| sqlx::Error::Encode(Box::new(e)))?;
        let db = &mut self.connection.db;
        let mut seen = Seen::default();
        let rows = sqlx::query(sql::IN_THE_WAY)
            .bind(&wanted.ids)
            .bind(&wanted.handoffs)
            .bind(&wanted.undos)
            .fetch_all(&mut *db)
            .await?;
        rows.iter().for_each(|row| seen.add_act(row));
        if let Some(guards) = &wanted.guards {
            let rows = sqlx::query(sql::TWINS).bind(guards).fetch_all(&mut *db).await?;
            rows.iter().for_each(|row| seen.add_twin(row, &wanted));
        }
        let rows = sqlx::query(sql::MESSAGES_TAKEN)
            .bind(&wanted.messages)
            .fetch_all(db)
            .await?;
        rows.iter().for_each(|row| seen.add_message(row));
        Ok(seen)
    }

    async fn run_sql(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        // A query, not raw text: it stays prepared.
        sqlx::query(statement)
            .execute(&mut self.connection.db)
            .await
            .map(|_| ())
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
    fn before(error: &sqlx::Error, jobs: &[Job]) -> Trouble {
        let fates = jobs.iter().map(|_| Fate::Answer(Err(down(error)))).collect();
        Trouble::at(error, fates, false)
    }

    fn at(error: &sqlx::Error, fates: Vec<Fate>, committing: bool) -> Trouble {
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
        let guards = write.changes.iter().filter_map(|c| c.unless_twin.as_ref());
        let erased: Vec<_> = write
            .acts
            .iter()
            .filter(|_| write.erases)
            .map(|a| a.act_id)
            .collect();
        let guards: Vec<_> = guards.map(|guard| GuardOut::new(0, guard, write.at)).collect();
        let mut updated = 0;
        for (change, act) in write.changes.iter().zip(&write.acts) {
            match change.expect {
                Expect::Version(was) => {
                    updated += 1;
                    self.reverses |= act.undo_of.is_some();
                    updates.push(ActOut::changed(act, was, &change.act.head));
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
fn is_refusal(error: &sqlx::Error) -> bool {
    let kind = error.as_database_error().map(|e| e.kind());
    matches!(kind, Some(ErrorKind::UniqueViolation | ErrorKind::CheckViolation))
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
