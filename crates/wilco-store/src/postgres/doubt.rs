//! When the connection is lost in the middle of a write: find out what stands before anybody is answered.
//!
//! The server may have got the write or not, and may still be at it: a statement goes on when its client is gone. So on a
//! fresh connection it is first asked whether the write stands. If it does not, the server's side of the lost connection is
//! ended, and asked for until it is gone; what it did is done by then, and what it did not do it will never do. Only then
//! "it does not stand" is an answer. Where that cannot be had in time, the caller is told that it is not known.
//!
//! A write is known by the hash of its last journal row, which covers its instant and all rows before: it is there
//! even when somebody has written on since.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use wilco_core::Act;

use super::conns::{Lease, LineName};
use super::{Shared, sql};
use crate::decode::{self, Columns};
use crate::judge::Sealed;

/// How long to wait before asking again: doubled each time, up to the most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_millis(500);

/// What was found.
pub(super) enum Found {
    /// The write is on stable storage.
    Stands,
    /// It is not, and never will be.
    StandsNot,
    /// Neither could be told.
    Unknown(String),
}

/// Finds out what became of `write`. The lease holds a sound connection afterwards, unless the answer is unknown.
pub(super) async fn settle(shared: &Shared, lease: &mut Lease, write: &Sealed, why: &str) -> Found {
    shared.counters.unknown.fetch_add(1, Ordering::Relaxed);
    shared.conns.heard(false);
    tracing::error!(
        why,
        "the connection was lost in the middle of a write: asking what stands"
    );
    let lost = lease.line.name;
    let until = Instant::now() + shared.doubt;
    let mut pause = FIRST_PAUSE;
    let mut fresh = false;
    loop {
        let problem = match look(shared, lease, &mut fresh, lost, write).await {
            Ok(Some(found)) => return found,
            Ok(None) => "the server is still at it".to_owned(),
            Err(problem) => {
                fresh = false;
                problem
            }
        };
        if Instant::now() >= until {
            let why = format!("{why}; what stands could not be read back: {problem}");
            tracing::error!(why, "whether a write stands is not known");
            return Found::Unknown(why);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// One try; `None` while the server may still be at the write.
async fn look(
    shared: &Shared,
    lease: &mut Lease,
    fresh: &mut bool,
    lost: LineName,
    write: &Sealed,
) -> Result<Option<Found>, String> {
    if shared.faults.read_back_fails() {
        return Ok(Some(Found::Unknown(
            "reading back failed, as a test asked".to_owned(),
        )));
    }
    if !*fresh {
        shared.conns.instead(lease).await.map_err(|e| e.to_string())?;
        *fresh = true;
    }
    let patience = shared.conns.patience();
    let looked = async {
        let db = &mut lease.line.db;
        // Whether the server's side is gone is asked before whether the write stands: only in this order, no write slips in
        // between.
        let over = is_over(db, lost).await?;
        let stands = stands(db, write).await?;
        Ok::<_, String>((over, stands))
    };
    let looked = tokio::time::timeout(patience, looked).await;
    let (over, stands) = looked.map_err(|_| "no answer".to_owned())??;
    Ok(match (stands, over) {
        (Some(true), _) => Some(Found::Stands),
        (_, false) => None,
        (Some(false), true) => Some(Found::StandsNot),
        (None, true) => Some(Found::Unknown(
            "others have written on since, and the write left no row to know it by".to_owned(),
        )),
    })
}

/// Whether the server's side of the lost connection has ended; if not, it is told to.
async fn is_over(db: &mut PgConnection, lost: LineName) -> Result<bool, String> {
    let asked = sqlx::query(sql::END_OTHER).bind(lost.pid).bind(lost.started);
    let rows = asked.fetch_all(db).await.map_err(|e| e.to_string())?;
    Ok(rows.is_empty())
}

/// Whether the write stands; `None` where that cannot be told. All of it does, or nothing: one act tells.
async fn stands(db: &mut PgConnection, write: &Sealed) -> Result<Option<bool>, String> {
    let mut told = None;
    for (act, rows) in write.acts.iter().zip(&write.rows) {
        let stands = if rows.is_empty() {
            as_it_stands(db, act).await?
        } else {
            let asked = sqlx::query(sql::ROW_STANDS)
                .bind(act.act_id.to_string())
                .bind(i64::try_from(act.seq).unwrap_or(i64::MAX))
                .bind(act.head.clone());
            let row = asked.fetch_one(&mut *db).await.map_err(|e| e.to_string())?;
            Some(row.number("rows")? > 0)
        };
        match (told, stands) {
            (_, None) => {}
            (None, _) => told = stands,
            (Some(a), Some(b)) if a == b => {}
            _ => return Err("the write stands in part".to_owned()),
        }
    }
    Ok(told)
}

/// Whether an act that was written without a journal row stands, by the whole of it.
async fn as_it_stands(db: &mut PgConnection, act: &Act) -> Result<Option<bool>, String> {
    let asked = sqlx::query(sql::ACT).bind(act.act_id.to_string());
    let row = asked.fetch_optional(db).await.map_err(|e| e.to_string())?;
    let Some(row) = row else { return Ok(Some(false)) };
    let current = decode::act(&row).map_err(|e| e.to_string())?;
    Ok(if current == *act {
        Some(true)
    } else if current.version > act.version {
        None
    } else {
        Some(false)
    })
}
