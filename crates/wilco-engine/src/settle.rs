//! Settle: an operator's word on an act in doubt.

use std::sync::Arc;

use wilco_core::settle::Word;
use wilco_core::write::Taken;
use wilco_core::{Reason, Refusal, Written};

use crate::api::{Caller, Role, SettleRequest, Settled};
use crate::engine::Engine;

const TRIES: u32 = 8;

/// The longest evidence text.
const MAX_EVIDENCE_CHARS: usize = 2000;

pub(crate) async fn settle(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: SettleRequest,
) -> Result<Settled, Refusal> {
    if !caller.has(Role::Operator) {
        return Err(Refusal::new(
            Reason::NotYours,
            "settling an act takes the role operator",
        ));
    }
    let evidence = request.evidence.trim().to_owned();
    if evidence.is_empty() || evidence.chars().count() > MAX_EVIDENCE_CHARS {
        let rule = format!(
            "evidence says what was seen, where and by whom, in 1 to {MAX_EVIDENCE_CHARS} characters"
        );
        return Err(Refusal::malformed("evidence", rule));
    }
    let mut long_ids = false;
    for _ in 0..TRIES {
        let mut act = engine.reload(request.act_id).await?;
        act.long_ids |= long_ids;
        let contract = match act.execution() {
            Some(execution) => engine.contract_for(&act, &execution.offer.frozen),
            None => {
                let text = format!(
                    "only an act in doubt is settled by a person; this one is {}",
                    act.state().as_str()
                );
                return Err(Refusal::new(Reason::Refused, text));
            }
        };
        let (profiles, evidence, operator) = (engine.profiles.clone(), evidence.clone(), caller.name.clone());
        let (done, owner_dead) = (request.done, request.owner_dead);
        wilco_failpoint::reach!("operator.settling");
        let written = engine
            .write(move |now| {
                let word = Word {
                    done,
                    evidence: &evidence,
                    operator: &operator,
                    owner_dead,
                };
                let change = wilco_core::settle::settled_by_operator(&profiles, &act, &contract, &word, now)?;
                Ok(vec![change])
            })
            .await?;
        wilco_failpoint::reach!("operator.settled");
        match written {
            Written::Advanced { acts, .. } => {
                let Some(act) = acts.into_iter().next() else {
                    continue;
                };
                if let Some(execution) = act.execution() {
                    // Kept: from here on its absence can be proved, and a word on its outcome is taken after the window.
                    tracing::warn!(act = %act.act_id, operator = caller.name, "an operator vouches that no process can send it any more");
                    let contract = engine.contract_for(&act, &execution.offer.frozen);
                    let now = engine.keeper.now();
                    let from = wilco_core::settle::quiet_from(&contract, execution).unwrap_or(now);
                    return Err(wilco_core::settle::kept_until(from, now));
                }
                tracing::warn!(act = %act.act_id, operator = caller.name, state = act.state().as_str(), "settled by an operator");
                let reply = act.closed().map(|c| c.line.clone()).unwrap_or_default();
                return Ok(Settled { reply, act });
            }
            Written::Taken(Taken::Message { .. }) => long_ids = true,
            Written::Stale { .. } | Written::Taken(_) => {}
        }
    }
    Err(Refusal::new(Reason::Busy, "this act is being changed by others; ask again").retry_after(1))
}
