//! Release: an operator lets a handoff go on although a likely twin stands. The release makes the next attempt.

use std::sync::Arc;

use wilco_core::{ActId, Refusal, Written};

use crate::api::{Caller, Prepared, Role};
use crate::engine::Engine;
use wilco_core::Reason;

const TRIES: u32 = 8;

pub(crate) async fn release(
    engine: &Arc<Engine>,
    caller: &Caller,
    act_id: ActId,
) -> Result<Prepared, Refusal> {
    if !caller.has(Role::Operator) {
        return Err(Refusal::new(
            Reason::NotYours,
            "releasing an act takes the role operator",
        ));
    }
    for _ in 0..TRIES {
        let act = engine.expire_if_due(engine.reload(act_id).await?).await?;
        let speaks = caller.speaks_for.contains(&act.handoff.sender);
        let (before, operator) = (act.clone(), caller.name.clone());
        let written = engine
            .write(move |_| Ok(vec![wilco_core::twin::release(&before, &operator, speaks)?]))
            .await?;
        if let Written::Advanced { acts, .. } = written {
            let Some(act) = acts.into_iter().next() else {
                continue;
            };
            engine.release_if_abandoned(std::slice::from_ref(&act));
            tracing::warn!(act = %act.act_id, operator = caller.name, "released although a likely twin stands");
            return crate::prepare::again(engine, caller, act).await;
        }
    }
    Err(Refusal::new(Reason::Busy, "this act is being changed by others; ask again").retry_after(1))
}
