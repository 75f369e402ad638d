//! Commit, decided: whether a confirmation may claim the act, and the claim itself.
//!
//! The order of the questions is a promise: who you are and whether the act is yours come before anything about its
//! state; a closed act answers as it was closed; the digest comes before anything that could be learned by guessing;
//! and the instant is judged last, inside the claiming write.

use rw1::{Kind, Profiles};

use crate::act::{Claim, Execution, Lapse, Progress};
use crate::contract::Identity;
use crate::journal::{Entry, OURSELVES};
use crate::prepare::{READBACKS_OWN, lapsed, not_a_line, one_line};
use crate::write::{Change, Expect};
use crate::{Act, Offer, Reason, Refusal, Stage, Timestamp};

/// What a commit quotes beside its token.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a> {
    /// The attempt its token names.
    pub attempt: u32,
    /// Hex SHA-256 of the statement the sender checked; empty if left out.
    pub statement_sha256: &'a str,
    /// The confirmation line; empty if left out.
    pub confirmation: &'a str,
}

/// What to do about a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Answer with the stored closing line (DN or FL).
    Answer,
    /// It is being executed or in doubt: wait for the truth.
    Join,
    /// The sender said no: lapse the statement.
    Decline(Confirmation),
    /// Ask the adapter whether it is ready, then claim.
    Claim(Confirmation),
}

/// A confirmation line, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// The exact line.
    pub line: String,
    /// Its message id.
    pub id: String,
}

/// Decides about a commit of an act that is known to be the caller's. Does not look at the clock: that is for
/// [`claim`].
///
/// # Errors
/// Every refusal of the errors table that does not depend on the time.
pub fn decide(profiles: &Profiles, act: &Act, quoted: Quoted<'_>) -> Result<Next, Refusal> {
    match &act.stage {
        Stage::Done(_) | Stage::Failed(_) => return Ok(Next::Answer),
        Stage::Cancelled(c) => {
            return Err(
                Refusal::new(Reason::Cancelled, "the handoff was cancelled; nothing was done")
                    .with_line(&c.line),
            );
        }
        Stage::Refused(c) if c.superseded => {
            return Err(Refusal::new(Reason::Superseded, "a newer handoff took its place").with_line(&c.line));
        }
        Stage::Refused(c) => {
            return Err(Refusal::new(Reason::Refused, "the handoff was refused").with_line(&c.line));
        }
        _ => {}
    }
    let offer = act
        .offer()
        .ok_or_else(|| Refusal::new(Reason::Refused, "nothing was ever stated for this handoff"))?;
    check_digest(offer, quoted)?;
    match &act.stage {
        Stage::Held(o) => {
            let text = format!("the statement cannot be confirmed: {}", first_problem(o));
            return Err(Refusal::new(Reason::Held, text)
                .with_problems(o.problems.clone())
                .with_line(&o.statement));
        }
        Stage::Lapsed(o, why) => {
            let (reason, text) = match why {
                Lapse::Expired => (
                    Reason::Expired,
                    "the statement expired before it was confirmed; prepare the handoff again",
                ),
                Lapse::Declined => (
                    Reason::Lapsed,
                    "the statement was declined; prepare the handoff again",
                ),
                Lapse::Released => (
                    Reason::Lapsed,
                    "an operator released it; prepare the handoff again for a statement to confirm",
                ),
            };
            return Err(Refusal::new(reason, text).with_line(&o.statement));
        }
        Stage::Executing(_) | Stage::InDoubt(_) => return Ok(Next::Join),
        _ => {}
    }
    same_profile(profiles, act, offer)?;
    confirmation(profiles, act, offer, quoted.confirmation)
}

/// A statement is confirmed under the profile it was made under: another one might name other execution slots, and the
/// done report would be judged by it.
fn same_profile(profiles: &Profiles, act: &Act, offer: &Offer) -> Result<(), Refusal> {
    let frozen = offer.frozen.profile_digest.as_str();
    let current = profiles.get(&act.handoff.profile).map_or("", |p| p.digest());
    if frozen.is_empty() || frozen == current {
        return Ok(());
    }
    let text = format!(
        "profile {} has changed since this was stated; once the statement lapses at {}, prepare the handoff again",
        act.handoff.profile,
        offer.expires_at.to_rfc3339()
    );
    Err(Refusal::new(Reason::Lapsed, text).with_line(&offer.statement))
}

fn first_problem(offer: &Offer) -> &str {
    offer
        .problems
        .first()
        .map_or("it failed our own check", |p| p.text.as_str())
}

fn check_digest(offer: &Offer, quoted: Quoted<'_>) -> Result<(), Refusal> {
    if quoted.statement_sha256.is_empty() {
        let text =
            "a commit quotes the SHA-256 of the statement it checked: check this one, then quote its digest";
        return Err(Refusal::new(Reason::DigestRequired, text)
            .in_field("statement_sha256")
            .with_statement(&offer.statement, &offer.statement_sha256));
    }
    if quoted.attempt != offer.attempt
        || !quoted
            .statement_sha256
            .eq_ignore_ascii_case(&offer.statement_sha256)
    {
        let text = "the token or digest is not the current statement's: check the current one, then quote its digest";
        return Err(Refusal::new(Reason::DigestStale, text)
            .in_field("statement_sha256")
            .with_statement(&offer.statement, &offer.statement_sha256));
    }
    Ok(())
}

fn confirmation(profiles: &Profiles, act: &Act, offer: &Offer, text: &str) -> Result<Next, Refusal> {
    if text.is_empty() {
        let text = format!(
            "a commit carries the sender's confirmation line: AN re={} val=Y from={} to={}",
            offer.rb_id, act.handoff.sender, act.handoff.receiver
        );
        return Err(Refusal::new(Reason::ConfirmationRequired, text)
            .in_field("confirmation")
            .with_statement(&offer.statement, &offer.statement_sha256));
    }
    let line = one_line("confirmation", text)?;
    let message =
        rw1::parse_strict(profiles, None, line).map_err(|problems| not_a_line("confirmation", problems))?;
    let bad = |slot: &str, text: String| Err(Refusal::malformed("confirmation", text).at_slot(slot));
    if message.kind != Kind::An {
        return bad(
            "type",
            format!(
                "the confirmation is an AN line, this is {}",
                message.kind.as_str()
            ),
        );
    }
    if message.from != act.handoff.sender {
        return bad(
            "from",
            format!(
                "the confirmation comes from the handoff's sender, {}",
                act.handoff.sender
            ),
        );
    }
    if message.to != act.handoff.receiver {
        return bad(
            "to",
            format!(
                "the confirmation goes to the handoff's receiver, {}",
                act.handoff.receiver
            ),
        );
    }
    if message.re != Some(offer.rb_id.as_str()) {
        return bad(
            "re",
            format!("the confirmation answers the statement: re={}", offer.rb_id),
        );
    }
    // A yes to other values than those stated is not a yes to the statement.
    if message.item.is_some_and(|item| item != act.handoff.item) {
        return bad(
            "item",
            format!("the statement is about item={}", act.handoff.item),
        );
    }
    let stated = rw1::parse(profiles, None, &offer.statement).message;
    for (slot, said) in message.slots.iter().filter(|(slot, _)| *slot != "val") {
        match stated.as_ref().and_then(|s| s.get(slot)) {
            Some(value) if value.show() == said.show() => {}
            Some(value) => {
                let text = format!(
                    "the statement says {slot}={}, the confirmation does not",
                    value.show()
                );
                return bad(slot, text);
            }
            // A note of the sender's own says nothing about the statement.
            None if slot.starts_with("x_") && !READBACKS_OWN.contains(&slot) => {}
            None => {
                let text = format!("the statement does not carry {slot}; a confirmation adds nothing to it");
                return bad(slot, text);
            }
        }
    }
    let confirmation = Confirmation {
        line: line.to_owned(),
        id: message.id.to_owned(),
    };
    match message.get("val").map(|v| v.show().into_owned()).as_deref() {
        Some("Y") => Ok(Next::Claim(confirmation)),
        Some("N") => Ok(Next::Decline(confirmation)),
        other => bad(
            "val",
            format!(
                "val is Y (execute) or N (decline), not {}",
                other.unwrap_or("missing")
            ),
        ),
    }
}

/// Who claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The daemon's name for itself, made at start.
    pub owner: String,
    /// The principal that confirmed.
    pub principal: String,
    /// Seconds after which the execution should be over.
    pub deadline_s: i64,
}

/// The claiming write of an act prepared under `offer`, decided at `now`, the store's clock inside that write: the
/// claim, or, at or after the statement's end, the lapse. A late yes is a no, and is written before it is answered.
#[must_use]
pub fn claim(
    act: &Act,
    offer: &Offer,
    confirmation: &Confirmation,
    claimant: &Claimant,
    now: Timestamp,
) -> Change {
    let not_after = match offer.frozen.contract.identity {
        Identity::Window(seconds) => offer.frozen.not_after.min(now.plus_seconds(i64::from(seconds))),
        Identity::Enforced | Identity::None => offer.frozen.not_after,
    };
    if now >= offer.expires_at || now >= not_after || now >= act.limit {
        let detail = serde_json::json!({ "confirmation": confirmation.line, "expired_at": offer.expires_at.to_rfc3339() });
        let refused = Entry::event("confirmation_late", detail, &claimant.principal);
        return lapsed(act, offer, Lapse::Expired, vec![refused]);
    }
    let mut next = act.clone();
    next.stage = Stage::Executing(Execution {
        offer: offer.clone(),
        confirmation: confirmation.line.clone(),
        claim: Claim {
            owner: claimant.owner.clone(),
            epoch: 1,
            claimed_at: now,
            deadline: now.plus_seconds(claimant.deadline_s),
            not_after,
        },
        progress: Progress {
            maybe_sent: true,
            // Looked at again soon after the call should be over, should this daemon forget it.
            next_at: now.plus_seconds(claimant.deadline_s),
            ..Progress::default()
        },
    });
    let entries = vec![
        Entry::line(&confirmation.id, &confirmation.line, &claimant.principal),
        Entry::event(
            "claimed",
            serde_json::json!({ "owner": claimant.owner, "epoch": 1 }),
            OURSELVES,
        ),
    ];
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    }
}

/// The write of a decline.
#[must_use]
pub fn decline(act: &Act, offer: &Offer, confirmation: &Confirmation, principal: &str) -> Change {
    let said_no = Entry::line(&confirmation.id, &confirmation.line, principal);
    lapsed(act, offer, Lapse::Declined, vec![said_no])
}

#[cfg(test)]
mod tests;
