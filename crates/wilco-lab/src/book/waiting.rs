//! Consents that wait for a person, as the lab's page lists them.

use serde_json::Value;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Book, BookError, json_column};

/// A consent that nobody has answered yet.
#[derive(Debug, Clone)]
pub struct WaitingConsent {
    pub consent_id: String,
    pub created_at: String,
    /// As ordered; the page shows amount, payee and reference.
    pub initiation: Value,
}

impl Book {
    /// The newest consents that wait, at most `last` of them.
    pub async fn consents_waiting(&self, last: u32) -> Result<Vec<WaitingConsent>, BookError> {
        let mut desk = self.desk().await?;
        let rows = sqlx::query(
            "SELECT consent_id, created_at, initiation FROM consent WHERE status = 'AwaitingAuthorisation' \
             ORDER BY rowid DESC LIMIT ?",
        )
        .bind(last)
        .fetch_all(desk.conn())
        .await
        .map_err(BookError::from);
        let rows = desk.finish(rows).await?;
        rows.iter().map(waiting).collect()
    }
}

fn waiting(row: &SqliteRow) -> Result<WaitingConsent, BookError> {
    let consent_id: String = row.try_get("consent_id")?;
    Ok(WaitingConsent {
        created_at: row.try_get("created_at")?,
        initiation: json_column(row, "consent", "initiation", &consent_id)?,
        consent_id,
    })
}
