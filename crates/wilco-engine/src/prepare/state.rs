//! Freezing and stating: the one write of a prepare.

use std::sync::Arc;

use wilco_core::act::TokenRecord;
use wilco_core::prepare as core;
use wilco_core::twin;
use wilco_core::write::Taken;
use wilco_core::{Act, Expect, Reason, Refusal, Stage, State, Timestamp, Written};

use super::{Race, Resolution, answer, id_taken, not_again};
use crate::api::{Caller, Prepared};
use crate::engine::Engine;

/// Freezes and states, in one write, at the store's instant.
pub(super) async fn store(
    engine: &Arc<Engine>,
    caller: &Caller,
    act: Act,
    expect: Expect,
    resolution: Resolution,
    supersedes: Option<Act>,
    race: &mut Race,
) -> Result<Option<Prepared>, Refusal> {
    let handoff = &act.handoff;
    let Resolution {
        resolved,
        adapter,
        exec,
    } = resolution;
    let served = engine
        .slot_named(&adapter)
        .and_then(|slot| slot.serves(&handoff.profile, &handoff.ask))
        .ok_or_else(|| {
            Refusal::new(Reason::AdapterDown, "the adapter that resolved this is gone").retry_after(5)
        })?;
    let notes = resolved.notes.clone();
    let frozen = core::freeze(
        resolved,
        &exec,
        &adapter,
        (&served.contract, &served.carried),
        engine.profiles.get(&handoff.profile).map_or("", |p| p.digest()),
        act.limit,
    );
    // A short id that was taken may be the new act's or the superseded one's.
    let supersedes = supersedes.map(|target| Act {
        long_ids: target.long_ids || race.long_ids,
        ..target
    });
    let token = TokenRecord {
        attempt: act.attempt + 1,
        hash: engine.token(&act, act.attempt + 1)?.hash(),
        key_id: engine.key_id()?.to_owned(),
    };
    let placed = frozen.clone();
    let act_id = act.act_id;
    let handoff_id = handoff.id.clone();
    let decide_with = |twin: Option<Box<Act>>| {
        let (profiles, principal, ttl_s) = (
            engine.profiles.clone(),
            caller.name.clone(),
            i64::try_from(engine.config.statement_ttl.as_secs()).unwrap_or(i64::MAX),
        );
        let (act, frozen, notes, supersedes, token) = (
            act.clone(),
            frozen.clone(),
            notes.clone(),
            supersedes.clone(),
            token.clone(),
        );
        move |now: Timestamp| {
            let mut changes = Vec::with_capacity(2);
            if let Some(target) = &supersedes {
                changes.push(core::superseded(&profiles, target, &act.handoff.id, now)?);
            }
            let Some(expires_at) = core::statement_end(now, ttl_s, frozen.not_after) else {
                let text = "its end or the counterparty's cut-off has passed";
                if expect != Expect::Absent {
                    return Err(not_again("EXPIRED", text));
                }
                let change = core::refused(
                    &profiles,
                    act.clone(),
                    expect,
                    "EXPIRED",
                    text,
                    false,
                    &principal,
                    now,
                )?;
                return Ok(vec![change]);
            };
            let mut next = act.clone();
            let rb_id = wilco_core::lines::next_id(&mut next);
            let offer = core::state(
                &profiles,
                &next,
                &rb_id,
                frozen.clone(),
                now,
                expires_at,
                notes.clone(),
            )?;
            core::liken(&profiles, &mut next, &offer.frozen);
            next.tokens.push(token.clone());
            let offer = match &twin {
                Some(twin) => twin::held(offer, twin),
                None => offer,
            };
            let guard = match &twin {
                Some(_) => None,
                None => twin::guard_at_prepare(&profiles, &next, supersedes.as_ref().map(|t| t.act_id), now),
            };
            let mut change = core::stated(next, expect, offer, &principal);
            if matches!(change.act.stage, Stage::Prepared(_)) {
                change.unless_twin = guard;
            }
            changes.push(change);
            Ok(changes)
        }
    };
    let mut written = engine.write(decide_with(None)).await;
    if let Ok(Written::Taken(Taken::Twin(twin))) = written {
        tracing::warn!(act = %act_id, twin = %twin.act_id, "held: a likely twin stands");
        written = engine.write(decide_with(Some(twin))).await;
    }
    wilco_failpoint::reach!("prepare.written");
    let lost = |engine: &Engine| engine.withdraw(act_id, placed.clone());
    match written {
        Ok(Written::Advanced { mut acts, .. }) => {
            let act = acts
                .pop()
                .ok_or_else(|| Refusal::new(Reason::StoreDown, "the write returned no act"))?;
            engine.release_if_abandoned(&acts);
            if act.state() == State::Refused {
                lost(engine);
            }
            tracing::info!(act = %act.act_id, thread = act.thread, state = act.state().as_str(), "prepared");
            answer(engine, act, false).map(Some)
        }
        Ok(Written::Taken(Taken::Message { message_id })) if message_id == handoff_id => {
            lost(engine);
            Err(id_taken("ho", &handoff_id, &message_id))
        }
        Ok(Written::Taken(Taken::Message { .. })) => {
            race.long_ids = true;
            lost(engine);
            Ok(None)
        }
        Ok(
            Written::Stale { .. } | Written::Taken(Taken::Handoff(_) | Taken::Undo { .. } | Taken::Twin(_)),
        ) => {
            lost(engine);
            Ok(None)
        }
        Err(refusal) => {
            // What the store may have written all the same keeps what was placed for it.
            if refusal.reason != Reason::StoreDown {
                lost(engine);
            }
            Err(refusal)
        }
    }
}
