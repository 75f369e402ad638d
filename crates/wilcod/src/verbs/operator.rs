//! What operators do: settle, release, purge.

use wilco_api::v1::settle_request::Outcome;
use wilco_api::{convert, v1};
use wilco_core::{Reason, Refusal};
use wilco_engine::{Role, SettleRequest};

use super::act_id;
use crate::app::{App, Seen};
use crate::metrics::Verb;

/// The longest evidence, in characters.
const EVIDENCE_MAX: usize = 2_000;

/// A person's word on an act in doubt.
///
/// # Errors
/// As [`super::prepare`].
pub async fn settle(
    app: &App,
    key: Option<&[u8]>,
    request: v1::SettleRequest,
) -> Result<v1::SettleReply, Refusal> {
    let mut seen = Seen::new(Verb::Settle);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        // Before the fields are looked at: what they may say is for operators.
        if !caller.has(Role::Operator) {
            let text = "settling an act takes the role operator";
            return Err(Refusal::new(Reason::NotYours, text));
        }
        let act_id = act_id(&request.act_id)?;
        seen.act_id = act_id.to_string();
        let done = match Outcome::try_from(request.outcome) {
            Ok(Outcome::Done) => true,
            Ok(Outcome::NotDone) => false,
            _ => return Err(Refusal::malformed("outcome", "outcome: say `done` or `not_done`")),
        };
        if request.evidence.trim().is_empty() || request.evidence.chars().count() > EVIDENCE_MAX {
            let text =
                format!("evidence: say what was seen, where and by whom, in 1 to {EVIDENCE_MAX} characters");
            return Err(Refusal::malformed("evidence", text));
        }
        let settled = app
            .engine
            .settle(
                caller,
                SettleRequest {
                    act_id,
                    done,
                    evidence: request.evidence,
                    owner_dead: request.owner_dead,
                },
            )
            .await?;
        seen.act(&settled.act);
        Ok(v1::SettleReply {
            reply: settled.reply,
            act: Some(convert::act(&settled.act)),
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// Lets a handoff held as a likely twin go on.
///
/// # Errors
/// As [`super::prepare`].
pub async fn release(
    app: &App,
    key: Option<&[u8]>,
    request: v1::ReleaseRequest,
) -> Result<v1::ReleaseReply, Refusal> {
    let mut seen = Seen::new(Verb::Release);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        let act_id = act_id(&request.act_id)?;
        seen.act_id = act_id.to_string();
        let released = app.engine.release(caller, act_id).await?;
        seen.act(&released.act);
        Ok(v1::ReleaseReply {
            act: Some(convert::act(&released.act)),
            notes: released.notes,
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// Erases the texts of acts closed long ago.
///
/// # Errors
/// As [`super::prepare`].
pub async fn purge(
    app: &App,
    key: Option<&[u8]>,
    request: v1::PurgeRequest,
) -> Result<v1::PurgeReply, Refusal> {
    let mut seen = Seen::new(Verb::Purge);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        let purged = app.engine.purge(caller, request.older_than_s).await?;
        Ok(v1::PurgeReply {
            acts: purged.acts,
            bodies: purged.bodies,
            more: purged.more,
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}
