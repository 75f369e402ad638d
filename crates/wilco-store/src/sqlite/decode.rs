//! SQLite rows to records.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use wilco_core::journal::Row;
use wilco_core::{Act, State, Timestamp};

use crate::record::{ActIn, At, RowIn};
use crate::{StoreError, ThreadLine};

/// The act in a row of the act's columns.
pub(super) fn act(row: &SqliteRow) -> Result<Act, StoreError> {
    let key = key(row, &["act_id"]);
    let at = |column| At {
        table: "acts",
        column,
        row: &key,
    };
    ActIn {
        act_id: get(row, at("act_id"))?,
        thread: get(row, at("thread"))?,
        handoff_id: get(row, at("handoff_id"))?,
        version: get(row, at("version"))?,
        state: get(row, at("state"))?,
        ho_line: get(row, at("ho_line"))?,
        sender: get(row, at("sender"))?,
        receiver: get(row, at("receiver"))?,
        item: get(row, at("item"))?,
        ask: get(row, at("ask"))?,
        profile: get(row, at("profile"))?,
        principal: get(row, at("principal"))?,
        attempt: get(row, at("attempt"))?,
        created_at: get(row, at("created_at"))?,
        updated_at: get(row, at("updated_at"))?,
        due_at: get(row, at("due_at"))?,
        limit_at: get(row, at("limit_at"))?,
        seq: get(row, at("seq"))?,
        head: get(row, at("head"))?,
        lines: get(row, at("lines"))?,
        long_ids: get(row, at("long_ids"))?,
        undo_of: get(row, at("undo_of"))?,
        likeness: get(row, at("likeness"))?,
        released_by: get(row, at("released_by"))?,
        profile_digest: get(row, at("profile_digest"))?,
        contract: get(row, at("contract"))?,
        tokens: get(row, at("tokens"))?,
        waiting: get(row, at("waiting"))?,
        stage: get(row, at("stage"))?,
    }
    .into_act()
}

/// The journal row in a row of the journal's columns.
pub(super) fn journal_row(row: &SqliteRow) -> Result<Row, StoreError> {
    let key = key(row, &["act_id", "seq"]);
    let at = |column| At {
        table: "journal",
        column,
        row: &key,
    };
    RowIn {
        act_id: get(row, at("act_id"))?,
        seq: get(row, at("seq"))?,
        kind: get(row, at("kind"))?,
        message_id: get(row, at("message_id"))?,
        body: get(row, at("body"))?,
        body_sha256: get(row, at("body_sha256"))?,
        principal: get(row, at("principal"))?,
        at: get(row, at("at"))?,
        hash: get(row, at("hash"))?,
    }
    .into_row()
}

/// The line in a row of a thread.
pub(super) fn thread_line(row: &SqliteRow) -> Result<ThreadLine, StoreError> {
    let key = key(row, &["act_id", "seq"]);
    let at = |column| At {
        table: "journal",
        column,
        row: &key,
    };
    Ok(ThreadLine {
        at: Timestamp(get(row, at("at"))?),
        act_id: at("act_id").parsed(&get::<String>(row, at("act_id"))?)?,
        seq: at("seq").number(get(row, at("seq"))?, 1)?,
        line: get(row, at("body"))?,
    })
}

/// A state and how many acts stand in it.
pub(super) fn count(row: &SqliteRow) -> Result<(State, u64), StoreError> {
    let at = At {
        table: "acts",
        column: "state",
        row: "any",
    };
    let word: String = row.try_get(0).map_err(|e| at.wrong(e.to_string()))?;
    let count: i64 = row.try_get(1).map_err(|e| at.wrong(e.to_string()))?;
    let state = State::from_word(&word).ok_or_else(|| at.wrong(format!("{word:?} is not a state")))?;
    Ok((state, u64::try_from(count).unwrap_or(0)))
}

/// A column's value, or what is wrong with it.
pub(super) fn get<T>(row: &SqliteRow, at: At<'_>) -> Result<T, StoreError>
where
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(at.column).map_err(|e| at.wrong(problem(&e)))
}

/// The row's key as far as it can be read, for naming it.
fn key(row: &SqliteRow, columns: &[&str]) -> String {
    let part = |column: &&str| {
        let text = row.try_get::<String, _>(*column).ok();
        text.or_else(|| Some(row.try_get::<i64, _>(*column).ok()?.to_string()))
            .unwrap_or_else(|| "?".to_owned())
    };
    columns.iter().map(part).collect::<Vec<_>>().join("/")
}

// sqlx names the column again in front of what is wrong with it.
fn problem(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::ColumnDecode { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
