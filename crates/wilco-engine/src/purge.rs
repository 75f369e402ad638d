//! Purge: an operator has the texts of long-closed acts erased.
//!
//! What may go and what stays is the core's to say ([`wilco_core::purge`]). It is done in small rounds, so that nobody
//! who pays waits for it, and for a limited time a call: whoever asked is told whether there is more.

use std::sync::Arc;
use std::time::Duration;

use wilco_core::{Reason, Refusal};

use crate::api::{Caller, Purged, Role};
use crate::engine::{Engine, store_refusal};

/// How many acts one round erases.
const ROUND: u32 = 50;

/// How long one call goes on.
const CALL_TIME: Duration = Duration::from_secs(5);

/// The least age: what was closed today, its sender may still be reading.
const LEAST_AGE_S: u64 = 86_400;

/// The greatest age: a hundred years.
const GREATEST_AGE_S: u64 = 36_525 * 86_400;

pub(crate) async fn purge(
    engine: &Arc<Engine>,
    caller: &Caller,
    older_than_s: u64,
) -> Result<Purged, Refusal> {
    if !caller.has(Role::Operator) {
        return Err(Refusal::new(
            Reason::NotYours,
            "erasing texts takes the role operator",
        ));
    }
    let age_s = i64::try_from(older_than_s)
        .ok()
        .filter(|_| (LEAST_AGE_S..=GREATEST_AGE_S).contains(&older_than_s))
        .ok_or_else(|| {
            let text = format!("older_than_s: from {LEAST_AGE_S} (a day) to {GREATEST_AGE_S}");
            Refusal::malformed("older_than_s", text)
        })?;
    let older_than = engine.keeper.now().plus_seconds(-age_s);
    let until = tokio::time::Instant::now() + CALL_TIME;
    let mut purged = Purged::default();
    loop {
        wilco_failpoint::reach!("purge.deciding");
        let round = engine
            .keeper
            .purge(older_than, ROUND)
            .await
            .map_err(store_refusal)?;
        wilco_failpoint::reach!("purge.written");
        purged.acts += round.acts;
        purged.bodies += round.bodies;
        purged.more = round.more;
        if !round.more || tokio::time::Instant::now() >= until || engine.stopping().is_cancelled() {
            break;
        }
        // Room for whoever waits to write.
        tokio::task::yield_now().await;
    }
    let Purged { acts, bodies, more } = purged;
    tracing::warn!(
        acts,
        bodies,
        more,
        operator = caller.name,
        older_than = older_than.to_rfc3339(),
        "texts of closed acts erased"
    );
    Ok(purged)
}
