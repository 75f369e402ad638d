//! One write: decided, sent as one statement, and answered once it is durable.
//!
//! ```text
//!  decide with the next instant ──► WRITE ──► made: answer
//!       ▲                             │
//!       │  nothing stands in the way  ├──► not made: look, judge ──► refused: answer
//!       └─────────────────────────────┤
//!       ▲  late: again, with the rows locked first
//!       │                             │
//!       └── does not stand ── doubt ◄─┴── the connection was lost ──► stands: answer
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sqlx::PgConnection;
use sqlx::error::ErrorKind;
use sqlx::postgres::{PgDatabaseError, PgRow, PgSeverity};
use wilco_core::write::{Decide, Durable};
use wilco_core::{Expect, Written};

use super::conns::{Lease, forgets};
use super::doubt::{self, Found};
use super::{Shared, parcel, sql};
use crate::StoreError;
use crate::decode::Columns;
use crate::judge::{Earlier, Findings, Judged, Sealed, judge};
use crate::port::down;
use crate::seen::{Seen, Wanted};

/// How often a write is begun anew before its caller is told to come again. Each time somebody else got on.
const TRIES: u32 = 24;

/// How often it may be late before its rows are locked first.
const LATE: u32 = 2;

/// What became of the statement.
enum Made {
    /// It is durable.
    Yes,
    /// Nothing was written: the instant was before the server's clock.
    Late,
    /// Nothing was written: something stands in the way, or did when the statement looked.
    No,
}

/// Why a statement has no answer.
pub(super) enum Failed {
    /// The server undid it: a name is taken.
    Taken,
    /// The server undid it, to be tried again.
    Again,
    /// The server undid it, or never got it.
    NotMade(StoreError),
    /// The connection was lost: it may have been made.
    Lost(String),
}

/// Carries out one write. Runs in a task of its own, which nobody can cancel.
pub(super) async fn run(shared: Arc<Shared>, decide: Decide, erases: bool) -> Result<Written, StoreError> {
    shared.is_open()?;
    if let Some(why) = shared.conns.unfit() {
        return Err(StoreError::Down(why));
    }
    let mut lease = shared.conns.lease().await?;
    let written = tries(&shared, &mut lease, &decide, erases).await;
    match written {
        Ok(written) => {
            if matches!(written, Written::Stale { .. } | Written::Taken(_)) {
                shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            }
            lease.give_back();
            Ok(written)
        }
        Err((error, sound)) => {
            if sound {
                lease.give_back();
            }
            Err(error)
        }
    }
}

/// An error, and whether the connection is still sound.
type Ended = (StoreError, bool);

async fn tries(shared: &Shared, lease: &mut Lease, decide: &Decide, erases: bool) -> Result<Written, Ended> {
    let sound = |e: StoreError| (e, true);
    let mut late = 0;
    for _ in 0..TRIES {
        let ahead = shared.source.ahead();
        let (write, sent) = shared.decide(decide, erases, ahead).map_err(sound)?;
        if write.acts.is_empty() {
            return Ok(advanced(write));
        }
        let (write, made) = if late > LATE || passes_a_reversal_on(&write) {
            in_steps(shared, lease, decide, write).await?
        } else {
            let made = at_once(shared, &mut lease.line.db, &write, sent).await;
            (write, made)
        };
        match made {
            // Decided anew, there may be nothing left to write.
            Ok(Made::Yes) if write.acts.is_empty() => return Ok(advanced(write)),
            Ok(Made::Yes) => return Ok(done(shared, write)),
            Ok(Made::Late) => late += 1,
            Ok(Made::No) | Err(Failed::Taken) => {
                if let Some(answer) = refusal(shared, lease, &write).await? {
                    return answer.map_err(sound);
                }
            }
            Err(Failed::Again) => {}
            Err(Failed::NotMade(error)) => return Err((error, true)),
            Err(Failed::Lost(why)) => match doubt::settle(shared, lease, &write, &why).await {
                Found::Stands => return Ok(done(shared, write)),
                // Certain: so it may be made now.
                Found::StandsNot => {}
                Found::Unknown(why) => return Err((StoreError::Unknown(why), false)),
            },
        }
    }
    Err((StoreError::Busy, true))
}

/// The whole write as one statement.
async fn at_once(shared: &Shared, db: &mut PgConnection, write: &Sealed, sent: i64) -> Result<Made, Failed> {
    let checked = shared.source.is_the_servers();
    wilco_failpoint::reach!("store.begun");
    let (made, now) = statement(shared, db, write, checked).await?;
    shared.source.locked(sent, write.at, now);
    if matches!(made, Made::Yes) {
        shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
    }
    Ok(made)
}

/// The write in a transaction of several statements: first the rows are locked, then the clock is read and it is
/// decided anew. For a write that was late several times, and for one that passes a reversal from an act to another, which
/// has to be let go of first.
///
/// # Errors
/// What is wrong with the new decision; nothing was written.
async fn in_steps(
    shared: &Shared,
    lease: &mut Lease,
    decide: &Decide,
    first: Sealed,
) -> Result<(Sealed, Result<Made, Failed>), Ended> {
    let db = &mut lease.line.db;
    let ids = |write: &Sealed| {
        let old = write.changes().filter(|(b, ..)| b.expect != Expect::Absent);
        let mut ids: Vec<String> = old.map(|(_, act, _)| act.act_id.to_string()).collect();
        ids.sort_unstable();
        ids
    };
    let held = ids(&first);
    let erases = first.erases;
    if let Err(e) = locked(shared, db, &held).await {
        return Ok((first, Err(undone(shared, db, e).await)));
    }
    let write = match shared.decide(decide, erases, 0) {
        Ok((write, _)) => write,
        Err(error) => {
            // Nothing was written, and nothing may stay open: the next write on this connection would not be a
            // transaction of its own.
            let ended = end(shared, db, sql::ROLLBACK).await;
            return Err((error, ended.is_ok()));
        }
    };
    if !ids(&write).iter().all(|id| held.contains(id)) {
        // It changes others now: these would not be locked.
        let ended = end(shared, db, sql::ROLLBACK).await;
        return Ok((write, ended.and(Err(Failed::Again))));
    }
    let made = async {
        if write.acts.iter().any(|a| a.undo_of.is_some()) {
            ask(shared, sqlx::query(sql::LET_GO).bind(&held).fetch_all(&mut *db)).await?;
        }
        statement(shared, db, &write, false).await
    };
    let made = match made.await {
        Ok((Made::Yes, _)) => {
            let ended = end(shared, db, sql::COMMIT).await;
            shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
            ended.map(|()| Made::Yes)
        }
        Ok((made, _)) => end(shared, db, sql::ROLLBACK).await.map(|()| made),
        Err(e) => Err(undone(shared, db, e).await),
    };
    Ok((write, made))
}

async fn locked(shared: &Shared, db: &mut PgConnection, ids: &[String]) -> Result<(), Failed> {
    ask(shared, sqlx::query(sql::BEGIN).fetch_all(&mut *db)).await?;
    ask(shared, sqlx::query(sql::LOCK).bind(ids).fetch_all(&mut *db)).await?;
    let sent = shared.source.ours();
    let rows = ask(shared, sqlx::query(sql::NOW).fetch_all(db)).await?;
    if let Some(now) = rows.first().and_then(|row| row.number("now").ok()) {
        shared.source.read(sent, now);
    }
    Ok(())
}

/// Undoes the transaction in which a statement failed; where that fails too, the connection is lost.
async fn undone(shared: &Shared, db: &mut PgConnection, failed: Failed) -> Failed {
    if matches!(failed, Failed::Lost(_)) {
        return failed;
    }
    match end(shared, db, sql::ROLLBACK).await {
        Ok(()) => failed,
        Err(Failed::Lost(why)) => Failed::Lost(why),
        Err(_) => Failed::Lost("a transaction could not be undone".to_owned()),
    }
}

async fn end(shared: &Shared, db: &mut PgConnection, statement: &'static str) -> Result<(), Failed> {
    ask(shared, sqlx::query(statement).fetch_all(db)).await.map(drop)
}

/// Runs `WRITE`, and answers besides the server's clock once everything was locked.
async fn statement(
    shared: &Shared,
    db: &mut PgConnection,
    write: &Sealed,
    checked: bool,
) -> Result<(Made, i64), Failed> {
    if shared.faults.lost_before() {
        return Err(Failed::Lost(
            "the connection was lost before the write, as a test asked".to_owned(),
        ));
    }
    if shared.faults.late() {
        return Ok((Made::Late, write.at.0));
    }
    if shared.faults.refused() {
        return Ok((Made::No, write.at.0));
    }
    let query = parcel::bound(write, checked).map_err(Failed::NotMade)?;
    let rows = ask(shared, query.fetch_all(db)).await?;
    let unclear = |why: String| Failed::Lost(format!("the write's answer makes no sense: {why}"));
    let [row] = rows.as_slice() else {
        return Err(unclear(format!("{} rows", rows.len())));
    };
    let flag = |column: &str| -> Result<bool, Failed> {
        sqlx::Row::try_get(row, column).map_err(|e| unclear(e.to_string()))
    };
    if let Some(setting) = row.text_or_null("switched_off").map_err(unclear)? {
        let why = forgets(&setting);
        shared.conns.found(Some(why.clone()));
        return Err(Failed::NotMade(StoreError::Down(why)));
    }
    let now = row.number("now").map_err(unclear)?;
    let made = match (flag("go")?, flag("free")?) {
        (true, _) => Made::Yes,
        (false, true) => Made::Late,
        (false, false) => Made::No,
    };
    if matches!(made, Made::Yes) && shared.faults.answer_lost() {
        return Err(Failed::Lost("the answer was lost, as a test asked".to_owned()));
    }
    Ok((made, now))
}

/// What stands in the way of the write, if anything still does: the answer to its caller.
async fn refusal(
    shared: &Shared,
    lease: &mut Lease,
    write: &Sealed,
) -> Result<Option<Result<Written, StoreError>>, Ended> {
    let seen = match look(shared, &mut lease.line.db, write).await {
        Ok(seen) => seen,
        Err(Failed::Lost(why)) => return Err((StoreError::Down(why), false)),
        Err(Failed::NotMade(error)) => return Err((error, true)),
        Err(Failed::Again | Failed::Taken) => return Ok(None),
    };
    // A row may bear an instant that another daemon gave out after ours.
    seen.latest().into_iter().for_each(|at| shared.clock.saw(at));
    let found = match Findings::gather(write, &seen) {
        Ok(found) => found,
        Err(error) => return Ok(Some(Err(error))),
    };
    Ok(match judge(write, &found, &Earlier::default()) {
        Judged::Refused(written) => Some(Ok(written)),
        Judged::Wrong(error) => Some(Err(error)),
        Judged::Fits | Judged::Wait => None,
    })
}

/// Everything that bears on the write. Each question sees what was committed before it, so another daemon's write may come
/// between two of them. Whatever wants a message id or makes a twin writes its act with it: the acts are asked for last, so
/// that whoever's message id is seen is seen too, and the first of the reasons [`judge`] knows is the one that is given.
async fn look(shared: &Shared, db: &mut PgConnection, write: &Sealed) -> Result<Seen, Failed> {
    let wanted = Wanted::of(std::iter::once(write)).map_err(Failed::NotMade)?;
    let mut seen = Seen::default();
    let asked = sqlx::query(sql::MESSAGES_TAKEN).bind(&wanted.messages);
    let rows = ask(shared, asked.fetch_all(&mut *db)).await?;
    rows.iter().for_each(|row| seen.add_message(row));
    if let Some(guards) = &wanted.guards {
        let rows = ask(shared, sqlx::query(sql::TWINS).bind(guards).fetch_all(&mut *db)).await?;
        rows.iter().for_each(|row| seen.add_twin(row, &wanted));
    }
    let asked = sqlx::query(sql::IN_THE_WAY)
        .bind(&wanted.ids)
        .bind(&wanted.handoffs)
        .bind(&wanted.undos);
    let rows = ask(shared, asked.fetch_all(db)).await?;
    rows.iter().for_each(|row| seen.add_act(row));
    Ok(seen)
}

/// Waits for an answer, but not for ever. What `fetch_all` answers, it answers once the server is ready for the next
/// question: a transaction of one statement is durable by then. That a statement is one is so by construction: a transaction
/// is begun in [`in_steps`] alone, which ends it before the connection serves anybody else, or has the connection closed.
async fn ask(
    shared: &Shared,
    asked: impl Future<Output = Result<Vec<PgRow>, sqlx::Error>>,
) -> Result<Vec<PgRow>, Failed> {
    let patience = shared.conns.patience();
    let failed = match tokio::time::timeout(patience, asked).await {
        Ok(Ok(rows)) => return Ok(rows),
        Ok(Err(error)) => failed(&error),
        Err(_) => Failed::Lost(format!("no answer in {patience:?}")),
    };
    if matches!(failed, Failed::Lost(_)) {
        shared.conns.heard(false);
    }
    Err(failed)
}

/// What an error says of the statement. Only a plain error of the server itself says that it undid it: one with which it
/// ended the connection may have come after the commit.
pub(super) fn failed(error: &sqlx::Error) -> Failed {
    let sqlx::Error::Database(said) = error else {
        return match error {
            sqlx::Error::Encode(_) => Failed::NotMade(down(error)),
            _ => Failed::Lost(error.to_string()),
        };
    };
    let severity = said
        .try_downcast_ref::<PgDatabaseError>()
        .map(PgDatabaseError::severity);
    if severity != Some(PgSeverity::Error) {
        return Failed::Lost(error.to_string());
    }
    match (said.kind(), said.code().as_deref()) {
        (ErrorKind::UniqueViolation, _) => Failed::Taken,
        // A deadlock, or a transaction that could not be put in an order with others.
        (_, Some("40P01" | "40001")) => Failed::Again,
        // The lock timeout, and too many connections.
        (_, Some("55P03" | "53300")) => Failed::NotMade(StoreError::Busy),
        _ => Failed::NotMade(down(error)),
    }
}

fn passes_a_reversal_on(write: &Sealed) -> bool {
    write.acts.len() > 1 && write.acts.iter().any(|a| a.undo_of.is_some())
}

fn done(shared: &Shared, write: Sealed) -> Written {
    wilco_failpoint::reach!("store.committed");
    shared.counters.writes.fetch_add(1, Ordering::Relaxed);
    shared.conns.heard(true);
    shared.hints.tell(write.acts.iter().map(|a| a.act_id));
    advanced(write)
}

/// Only called with what stands on stable storage.
fn advanced(write: Sealed) -> Written {
    Written::Advanced {
        at: write.at,
        durable: Durable::attest(&write.acts),
        acts: write.acts,
    }
}
