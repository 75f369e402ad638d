//! The port, on Postgres.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use tokio::sync::broadcast;
use wilco_core::journal::Row;
use wilco_core::write::Decide;
use wilco_core::{Act, ActId, State, Timestamp, Written};

use super::{PostgresKeeper, Shared, sql, write};
use crate::decode;
use crate::erase::{self, Erases};
use crate::page::{self, Place};
use crate::port::down;
use crate::record::At;
use crate::walk::{Walk, Way};
use crate::{Counters, Filter, Keeper, Page, Purged, StoreError, ThreadLine};

type Asked = Query<'static, Postgres, PgArguments>;

#[async_trait]
impl Keeper for PostgresKeeper {
    async fn write(&self, decide: Decide) -> Result<Written, StoreError> {
        self.write_in_its_task(decide, false).await
    }

    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        let id = id.to_string();
        self.one(move || sqlx::query(sql::ACT).bind(id.clone())).await
    }

    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        let (thread, id) = (thread.to_owned(), handoff_id.to_owned());
        self.one(move || {
            sqlx::query(sql::ACT_BY_HANDOFF)
                .bind(thread.clone())
                .bind(id.clone())
        })
        .await
    }

    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError> {
        let (thread, id) = (thread.to_owned(), message_id.to_owned());
        let asked = move || {
            sqlx::query(sql::ACT_BY_MESSAGE)
                .bind(thread.clone())
                .bind(id.clone())
        };
        let rows = self.rows(asked).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let at = At {
            table: "journal",
            column: "body",
            row: message_id,
        };
        Ok(Some((decode::act(row)?, decode::text_or_null(row, at)?)))
    }

    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError> {
        let of = of.to_string();
        self.one(move || sqlx::query(sql::ACT_UNDOING).bind(of.clone()))
            .await
    }

    async fn acts(&self, filter: &Filter) -> Result<Page<Act>, StoreError> {
        let walk = Walk::of(filter)?;
        let statement = match walk.way {
            Way::All => sql::LIST,
            Way::Thread => sql::LIST_OF_THREAD,
            Way::State => sql::LIST_OF_STATE,
            Way::Sender => sql::LIST_OF_SENDER,
        };
        let mut acts = Vec::new();
        for key in walk.keys {
            let (before, senders, states) = (walk.before.clone(), walk.senders.clone(), walk.states.clone());
            let (ask, thread, most) = (
                filter.ask.clone(),
                filter.thread.clone(),
                i64::from(walk.size) + 1,
            );
            let asked = move || {
                sqlx::query(statement)
                    .bind(before.clone())
                    .bind(most)
                    .bind(ask.clone())
                    .bind(thread.clone())
                    .bind(senders.clone())
                    .bind(states.clone())
                    .bind(key.clone())
            };
            acts.extend(self.many(asked).await?);
        }
        Ok(page::merged(acts, walk.size))
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError> {
        self.many(move || sqlx::query(sql::DUE).bind(now.0).bind(i64::from(limit)))
            .await
    }

    async fn claimed(&self) -> Result<Vec<Act>, StoreError> {
        self.many(|| sqlx::query(sql::CLAIMED)).await
    }

    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError> {
        let thread = thread.to_owned();
        self.many(move || sqlx::query(sql::DUE_IN_THREAD).bind(now.0).bind(thread.clone()))
            .await
    }

    async fn thread(
        &self,
        thread: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<ThreadLine>, StoreError> {
        let after = after.map(Place::from_token).transpose()?;
        let size = page::size(limit);
        let thread = thread.to_owned();
        let asked = move || {
            sqlx::query(sql::THREAD)
                .bind(thread.clone())
                .bind(after.map_or(i64::MIN, |p| p.at.0))
                .bind(after.map_or_else(String::new, |p| p.act_id.to_string()))
                .bind(after.map_or(0, |p| i64::try_from(p.seq).unwrap_or(i64::MAX)))
                .bind(i64::from(size) + 1)
        };
        let rows = self.rows(asked).await?;
        let lines = rows.iter().map(decode::thread_line).collect::<Result<_, _>>()?;
        Ok(page::cut(lines, size, |line| line.place().token()))
    }

    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError> {
        let id = id.to_string();
        let rows = self
            .rows(move || sqlx::query(sql::JOURNAL).bind(id.clone()))
            .await?;
        rows.iter().map(decode::journal_row).collect()
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        let rows = self.rows(|| sqlx::query(sql::COUNTS)).await?;
        decode::counts(&rows)
    }

    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError> {
        erase::round(self, older_than, limit).await
    }

    fn changes(&self) -> Option<broadcast::Receiver<ActId>> {
        Some(self.shared.hints.heard())
    }

    fn now(&self) -> Timestamp {
        self.shared.now()
    }

    fn clock_behind_s(&self) -> i64 {
        self.shared.clock.behind_s()
    }

    fn acknowledge_clock(&self) {
        self.shared.clock.acknowledge();
    }

    fn counters(&self) -> Counters {
        self.shared.counters.read()
    }

    fn healthy(&self) -> bool {
        self.shared.is_open().is_ok()
            && self.shared.conns.well()
            && self.shared.conns.unfit().is_none()
            && self.shared.clock.trusted()
    }

    fn trouble(&self) -> Option<String> {
        self.shared.conns.unfit()
    }

    async fn close(&self) {
        self.shut().await;
    }
}

#[async_trait]
impl Erases for PostgresKeeper {
    // Each takes a connection from the others.
    const AT_ONCE: usize = 4;

    async fn old_after(&self, older_than: Timestamp, after: &(i64, String)) -> Result<Vec<Act>, StoreError> {
        let (at, id) = after.clone();
        self.many(move || {
            sqlx::query(sql::OLD)
                .bind(older_than.0)
                .bind(at)
                .bind(id.clone())
                .bind(i64::from(page::MOST))
        })
        .await
    }

    async fn erase(&self, decide: Decide) -> Result<Written, StoreError> {
        self.write_in_its_task(decide, true).await
    }
}

impl PostgresKeeper {
    async fn write_in_its_task(&self, decide: Decide, erases: bool) -> Result<Written, StoreError> {
        let task = tokio::spawn(write::run(Arc::clone(&self.shared), decide, erases));
        let lost = |e| StoreError::Unknown(format!("the write's task ended before it answered: {e}"));
        task.await.unwrap_or_else(|e| Err(lost(e)))
    }

    async fn one(&self, asked: impl Fn() -> Asked + Send + 'static) -> Result<Option<Act>, StoreError> {
        Ok(self.many(asked).await?.pop())
    }

    async fn many(&self, asked: impl Fn() -> Asked + Send + 'static) -> Result<Vec<Act>, StoreError> {
        let rows = self.rows(asked).await?;
        let acts: Vec<Act> = rows.iter().map(decode::act).collect::<Result<_, _>>()?;
        // What is decided from what was read is decided later, also where another daemon's instant was a little ahead.
        let latest = acts.iter().map(|act| act.updated_at).max();
        latest.into_iter().for_each(|at| self.shared.clock.saw(at));
        Ok(acts)
    }

    /// The rows that answer a question, which is asked in a task that nobody can cancel.
    async fn rows(&self, asked: impl Fn() -> Asked + Send + 'static) -> Result<Vec<PgRow>, StoreError> {
        let task = tokio::spawn(rows(Arc::clone(&self.shared), asked));
        task.await.unwrap_or_else(|e| Err(down(e)))
    }
}

/// Asks, and once more on a fresh connection where the first was lost: it may have been lost long ago.
async fn rows(
    shared: Arc<Shared>,
    asked: impl Fn() -> Asked + Send + 'static,
) -> Result<Vec<PgRow>, StoreError> {
    shared.is_open()?;
    let mut lease = shared.conns.lease().await?;
    let patience = shared.conns.patience();
    let mut again = false;
    loop {
        let answer = tokio::time::timeout(patience, asked().fetch_all(&mut lease.line.db)).await;
        let problem = match answer {
            Ok(Ok(rows)) => {
                shared.conns.heard(true);
                lease.give_back();
                return Ok(rows);
            }
            Ok(Err(error)) => match write::failed(&error) {
                write::Failed::NotMade(error) => {
                    lease.give_back();
                    return Err(error);
                }
                _ => error.to_string(),
            },
            Err(_) => format!("no answer in {patience:?}"),
        };
        if again {
            shared.conns.heard(false);
            return Err(StoreError::Down(problem));
        }
        again = true;
        shared.conns.instead(&mut lease).await?;
    }
}
