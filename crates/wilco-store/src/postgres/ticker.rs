//! Once a second: the highest instant is noted, the database's clock is read, and whether what is committed is durable.

use std::sync::Arc;
use std::time::Duration;

use wilco_core::Timestamp;

use super::conns::forgets;
use super::{Shared, sql};
use crate::StoreError;
use crate::decode::Columns;

const EVERY: Duration = Duration::from_secs(1);

/// Notes until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(EVERY).await;
        note(&shared).await;
    }
}

/// Notes once. Where the server does not answer, the keeper is not well until it does.
pub(super) async fn note(shared: &Shared) {
    let mut lease = match shared.conns.lease().await {
        Ok(lease) => lease,
        // All are in use: the server is heard of through them.
        Err(StoreError::Busy) => return,
        Err(StoreError::Refuse(why)) => {
            shared.conns.found(Some(why));
            return;
        }
        Err(error) => {
            tracing::warn!(%error, "the database does not answer");
            return;
        }
    };
    let sent = shared.source.ours();
    let asked = sqlx::query(sql::TICK)
        .bind(shared.clock.highest().0)
        .fetch_one(&mut lease.line.db);
    let answer = tokio::time::timeout(shared.conns.patience(), asked).await;
    let row = match answer {
        Ok(Ok(row)) => row,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the database does not answer");
            shared.conns.heard(false);
            shared.conns.forget_idle();
            return;
        }
        Err(_) => {
            shared.conns.heard(false);
            shared.conns.forget_idle();
            return;
        }
    };
    if let (Ok(now), Ok(highest)) = (row.number("now"), row.number("highest")) {
        shared.source.read(sent, now);
        shared.clock.saw(Timestamp(highest));
    }
    match row.text_or_null("switched_off") {
        Ok(off) => shared.conns.found(off.as_deref().map(forgets)),
        Err(error) => tracing::warn!(error, "the database does not tell its settings"),
    }
    shared.conns.heard(true);
    lease.give_back();
}
