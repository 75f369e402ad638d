//! Idempotency keys: within 24 hours the same key and bytes find what they created, other bytes are refused.

use sqlx::{Row, SqliteConnection};

use super::{BookError, Refusal};
use crate::{clock::Stamp, fault::Endpoint};

/// How long a key is remembered (OBIE R/W 3.1), in microseconds of the bank's instant.
pub(super) const KEY_LIFE_US: i64 = 24 * 3_600 * 1_000_000;

/// A key as one endpoint received it.
#[derive(Debug, Clone)]
pub struct KeyUse {
    /// `x-idempotency-key`
    pub key: String,
    /// SHA-256 of the request body's exact bytes, in hex.
    pub body_sha256: String,
}

/// What this key created at this endpoint, if it still counts.
pub(super) async fn lookup(
    conn: &mut SqliteConnection,
    endpoint: Endpoint,
    used: &KeyUse,
    now: &Stamp,
) -> Result<Option<String>, BookError> {
    let row = sqlx::query(
        "SELECT body_sha256, resource_id FROM idempotency WHERE endpoint = ? AND key = ? AND used_at_us > ?",
    )
    .bind(endpoint.word())
    .bind(&used.key)
    .bind(now.instant_us - KEY_LIFE_US)
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.try_get::<String, _>("body_sha256")? != used.body_sha256 {
        return Err(Refusal::KeyReused.into());
    }
    Ok(Some(row.try_get("resource_id")?))
}

/// Remembers what the key created; a key older than its life is taken over.
pub(super) async fn remember(
    conn: &mut SqliteConnection,
    endpoint: Endpoint,
    used: &KeyUse,
    resource_id: &str,
    now: &Stamp,
) -> Result<(), BookError> {
    sqlx::query(
        "INSERT INTO idempotency (endpoint, key, body_sha256, resource_id, used_at_us) VALUES (?, ?, ?, ?, ?) \
         ON CONFLICT (endpoint, key) DO UPDATE SET body_sha256 = excluded.body_sha256, \
         resource_id = excluded.resource_id, used_at_us = excluded.used_at_us",
    )
    .bind(endpoint.word())
    .bind(&used.key)
    .bind(&used.body_sha256)
    .bind(resource_id)
    .bind(now.instant_us)
    .execute(conn)
    .await?;
    Ok(())
}
