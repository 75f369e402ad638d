//! The port, on SQLite. Reading walks an index for every question, and never the whole table.

use async_trait::async_trait;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use wilco_core::journal::Row;
use wilco_core::write::Decide;
use wilco_core::{Act, ActId, State, Timestamp, Written};

use super::{SqliteKeeper, sql};
use crate::decode;
use crate::erase::{self, Erases};
use crate::page::{self, Place};
use crate::port::{down, locked};
use crate::record::At;
use crate::walk::{Walk, Way};
use crate::{Counters, Filter, Keeper, Page, Purged, StoreError, ThreadLine};

type Asked = Query<'static, Sqlite, SqliteArguments>;

#[async_trait]
impl Keeper for SqliteKeeper {
    async fn write(&self, decide: Decide) -> Result<Written, StoreError> {
        self.enqueue(decide, false).await
    }

    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        self.one(sqlx::query(sql::ACT).bind(id.to_string())).await
    }

    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        let asked = sqlx::query(sql::ACT_BY_HANDOFF);
        self.one(asked.bind(thread.to_owned()).bind(handoff_id.to_owned()))
            .await
    }

    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError> {
        let asked = sqlx::query(sql::ACT_BY_MESSAGE);
        let asked = asked.bind(thread.to_owned()).bind(message_id.to_owned());
        let row = asked.fetch_optional(&self.readers).await.map_err(down)?;
        let Some(row) = row else { return Ok(None) };
        let at = At {
            table: "journal",
            column: "body",
            row: message_id,
        };
        Ok(Some((decode::act(&row)?, decode::text_or_null(&row, at)?)))
    }

    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError> {
        self.one(sqlx::query(sql::ACT_UNDOING).bind(of.to_string())).await
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
        for key in &walk.keys {
            let asked = sqlx::query(statement)
                .bind(walk.before.clone())
                .bind(i64::from(walk.size) + 1)
                .bind(filter.ask.clone())
                .bind(filter.thread.clone())
                .bind(walk.senders.clone())
                .bind(walk.states.clone())
                .bind(key.clone());
            acts.extend(self.many(asked).await?);
        }
        Ok(page::merged(acts, walk.size))
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError> {
        self.many(sqlx::query(sql::DUE).bind(now.0).bind(i64::from(limit)))
            .await
    }

    async fn claimed(&self) -> Result<Vec<Act>, StoreError> {
        self.many(sqlx::query(sql::CLAIMED)).await
    }

    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError> {
        self.many(
            sqlx::query(sql::DUE_IN_THREAD)
                .bind(now.0)
                .bind(thread.to_owned()),
        )
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
        let asked = sqlx::query(sql::THREAD)
            .bind(thread.to_owned())
            .bind(after.map_or(i64::MIN, |p| p.at.0))
            .bind(after.map_or_else(String::new, |p| p.act_id.to_string()))
            .bind(after.map_or(0, |p| i64::try_from(p.seq).unwrap_or(i64::MAX)))
            .bind(i64::from(size) + 1);
        let rows = asked.fetch_all(&self.readers).await.map_err(down)?;
        let lines = rows.iter().map(decode::thread_line).collect::<Result<_, _>>()?;
        Ok(page::cut(lines, size, |line| line.place().token()))
    }

    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError> {
        let asked = sqlx::query(sql::JOURNAL).bind(id.to_string());
        let rows = asked.fetch_all(&self.readers).await.map_err(down)?;
        rows.iter().map(decode::journal_row).collect()
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        let rows = sqlx::query(sql::COUNTS).fetch_all(&self.readers).await;
        let rows = rows.map_err(down)?;
        decode::counts(&rows)
    }

    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError> {
        erase::round(self, older_than, limit).await
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
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
        locked(&self.queue).is_some() && self.shared.stopped().is_none() && self.shared.clock.trusted()
    }

    async fn close(&self) {
        self.shut().await;
    }
}

#[async_trait]
impl Erases for SqliteKeeper {
    const AT_ONCE: usize = 16;

    async fn old_after(&self, older_than: Timestamp, after: &(i64, String)) -> Result<Vec<Act>, StoreError> {
        let asked = sqlx::query(sql::OLD)
            .bind(older_than.0)
            .bind(after.0)
            .bind(after.1.clone())
            .bind(i64::from(page::MOST));
        self.many(asked).await
    }

    async fn erase(&self, decide: Decide) -> Result<Written, StoreError> {
        self.enqueue(decide, true).await
    }
}

impl SqliteKeeper {
    async fn one(&self, asked: Asked) -> Result<Option<Act>, StoreError> {
        let row = asked.fetch_optional(&self.readers).await.map_err(down)?;
        row.as_ref().map(decode::act).transpose()
    }

    async fn many(&self, asked: Asked) -> Result<Vec<Act>, StoreError> {
        let rows: Vec<SqliteRow> = asked.fetch_all(&self.readers).await.map_err(down)?;
        rows.iter().map(decode::act).collect()
    }
}
