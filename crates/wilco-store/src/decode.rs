//! Rows of either database to records.

use wilco_core::journal::Row;
use wilco_core::{Act, State, Timestamp};

use crate::record::{ActIn, At, RowIn};
use crate::{StoreError, ThreadLine};

/// A row whose columns are read by name. An error is what is wrong with the column.
pub(crate) trait Columns {
    /// A text that is there.
    fn text(&self, column: &str) -> Result<String, String>;
    /// A text, or null.
    fn text_or_null(&self, column: &str) -> Result<Option<String>, String>;
    /// A number that is there.
    fn number(&self, column: &str) -> Result<i64, String>;
    /// A number, or null.
    fn number_or_null(&self, column: &str) -> Result<Option<i64>, String>;
}

macro_rules! columns_of {
    ($row:ty) => {
        impl Columns for $row {
            fn text(&self, column: &str) -> Result<String, String> {
                sqlx::Row::try_get(self, column).map_err(problem)
            }

            fn text_or_null(&self, column: &str) -> Result<Option<String>, String> {
                sqlx::Row::try_get(self, column).map_err(problem)
            }

            fn number(&self, column: &str) -> Result<i64, String> {
                sqlx::Row::try_get(self, column).map_err(problem)
            }

            fn number_or_null(&self, column: &str) -> Result<Option<i64>, String> {
                sqlx::Row::try_get(self, column).map_err(problem)
            }
        }
    };
}

columns_of!(sqlx::sqlite::SqliteRow);
columns_of!(sqlx::postgres::PgRow);

/// The act in a row of the act's columns.
pub(crate) fn act(row: &impl Columns) -> Result<Act, StoreError> {
    let key = key(row, &["act_id"]);
    let at = |column| At {
        table: "acts",
        column,
        row: &key,
    };
    ActIn {
        act_id: text(row, at("act_id"))?,
        thread: text(row, at("thread"))?,
        handoff_id: text(row, at("handoff_id"))?,
        version: number(row, at("version"))?,
        state: text(row, at("state"))?,
        ho_line: text(row, at("ho_line"))?,
        sender: text(row, at("sender"))?,
        receiver: text(row, at("receiver"))?,
        item: text(row, at("item"))?,
        ask: text(row, at("ask"))?,
        profile: text(row, at("profile"))?,
        principal: text(row, at("principal"))?,
        attempt: number(row, at("attempt"))?,
        created_at: number(row, at("created_at"))?,
        updated_at: number(row, at("updated_at"))?,
        due_at: number_or_null(row, at("due_at"))?,
        limit_at: number(row, at("limit_at"))?,
        seq: number(row, at("seq"))?,
        head: text(row, at("head"))?,
        lines: number(row, at("lines"))?,
        long_ids: number(row, at("long_ids"))?,
        undo_of: text_or_null(row, at("undo_of"))?,
        likeness: text_or_null(row, at("likeness"))?,
        released_by: text_or_null(row, at("released_by"))?,
        profile_digest: text_or_null(row, at("profile_digest"))?,
        contract: text_or_null(row, at("contract"))?,
        tokens: text(row, at("tokens"))?,
        waiting: text(row, at("waiting"))?,
        stage: text(row, at("stage"))?,
    }
    .into_act()
}

/// The journal row in a row of the journal's columns.
pub(crate) fn journal_row(row: &impl Columns) -> Result<Row, StoreError> {
    let key = key(row, &["act_id", "seq"]);
    let at = |column| At {
        table: "journal",
        column,
        row: &key,
    };
    RowIn {
        act_id: text(row, at("act_id"))?,
        seq: number(row, at("seq"))?,
        kind: text(row, at("kind"))?,
        message_id: text_or_null(row, at("message_id"))?,
        body: text_or_null(row, at("body"))?,
        body_sha256: text(row, at("body_sha256"))?,
        principal: text(row, at("principal"))?,
        at: number(row, at("at"))?,
        hash: text(row, at("hash"))?,
    }
    .into_row()
}

/// The line in a row of a thread.
pub(crate) fn thread_line(row: &impl Columns) -> Result<ThreadLine, StoreError> {
    let key = key(row, &["act_id", "seq"]);
    let at = |column| At {
        table: "journal",
        column,
        row: &key,
    };
    Ok(ThreadLine {
        at: Timestamp(number(row, at("at"))?),
        act_id: at("act_id").parsed(&text(row, at("act_id"))?)?,
        seq: at("seq").number(number(row, at("seq"))?, 1)?,
        line: text_or_null(row, at("body"))?,
    })
}

/// How many acts stand in each state, from the states that have some.
pub(crate) fn counts<C: Columns>(rows: &[C]) -> Result<Vec<(State, u64)>, StoreError> {
    let found: Vec<_> = rows.iter().map(count).collect::<Result<_, _>>()?;
    let count = |state| found.iter().find(|(s, _)| *s == state).map_or(0, |(_, n)| *n);
    Ok(State::ALL.into_iter().map(|s| (s, count(s))).collect())
}

fn count(row: &impl Columns) -> Result<(State, u64), StoreError> {
    let at = At {
        table: "acts",
        column: "state",
        row: "any",
    };
    let word = text(row, at)?;
    let count = number(row, At { column: "acts", ..at })?;
    let state = State::from_word(&word).ok_or_else(|| at.wrong(format!("{word:?} is not a state")))?;
    Ok((state, u64::try_from(count).unwrap_or(0)))
}

/// A column's text, or where it is wrong.
pub(crate) fn text(row: &impl Columns, at: At<'_>) -> Result<String, StoreError> {
    row.text(at.column).map_err(|problem| at.wrong(problem))
}

/// A column's text, or where it is wrong; it may be null.
pub(crate) fn text_or_null(row: &impl Columns, at: At<'_>) -> Result<Option<String>, StoreError> {
    row.text_or_null(at.column).map_err(|problem| at.wrong(problem))
}

/// A column's number, or where it is wrong.
pub(crate) fn number(row: &impl Columns, at: At<'_>) -> Result<i64, StoreError> {
    row.number(at.column).map_err(|problem| at.wrong(problem))
}

fn number_or_null(row: &impl Columns, at: At<'_>) -> Result<Option<i64>, StoreError> {
    row.number_or_null(at.column).map_err(|problem| at.wrong(problem))
}

/// The row's key as far as it can be read, for naming it.
fn key(row: &impl Columns, columns: &[&str]) -> String {
    let part = |column: &&str| {
        let text = row.text(column).ok();
        text.or_else(|| Some(row.number(column).ok()?.to_string()))
            .unwrap_or_else(|| "?".to_owned())
    };
    columns.iter().map(part).collect::<Vec<_>>().join("/")
}

// sqlx names the column again in front of what is wrong with it.
fn problem(error: sqlx::Error) -> String {
    match error {
        sqlx::Error::ColumnDecode { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
