//! What every adapter's tests need and only the daemon makes otherwise: act ids, frozen acts, permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wilco_core::act::{Execution, Handoff, Progress};
use wilco_core::{Act, ActId, Claim, Clock, Durable, Frozen, Offer, Resolved, Stage, Timestamp};

use crate::{Description, Job, Permit, Served};

/// How long after its job's `now` a frozen act of the kit may still be sent, in seconds.
pub const SENDABLE_S: i64 = 3_600;

/// A new act id. Unique in this process, and over processes that share a counterparty.
#[must_use]
pub fn act_id(now: Timestamp) -> ActId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut random = [0; 10];
    random[3..6].copy_from_slice(&std::process::id().to_be_bytes()[1..]);
    random[6..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    ActId::new(now, random)
}

/// A job of this adapter: `slots` as the handoff carries them, `exec` the slots to resolve.
#[must_use]
pub fn job(
    now: Timestamp,
    profile: &str,
    ask: &str,
    item: &str,
    slots: &[(&str, &str)],
    exec: &[&str],
) -> Job {
    Job {
        act_id: act_id(now),
        attempt: 1,
        profile: profile.to_owned(),
        ask: ask.to_owned(),
        item: item.to_owned(),
        slots: slots
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        exec: exec.iter().map(|s| (*s).to_owned()).collect(),
        undo: None,
        now,
    }
}

/// How this adapter serves the job, if it does.
#[must_use]
pub fn served<'a>(job: &Job, description: &'a Description) -> Option<&'a Served> {
    let of_job = |s: &&Served| s.profile == job.profile && s.ask == job.ask;
    description.serves.iter().find(of_job)
}

/// The act as prepare freezes it: what was resolved, with the adapter's contract of now. It may be sent until its cut-off, or
/// [`SENDABLE_S`] after the job's `now`.
///
/// # Panics
/// If the adapter does not serve the job's profile and ask.
#[must_use]
pub fn frozen_of(job: &Job, resolved: Resolved, description: &Description) -> Frozen {
    let Some(served) = served(job, description) else {
        panic!("{} does not serve {}/{}", description.name, job.profile, job.ask);
    };
    let end = job.now.plus_seconds(SENDABLE_S);
    Frozen {
        adapter: description.name.clone(),
        values: resolved.values,
        extra: resolved.extra,
        carried: served.carried.clone(),
        request: resolved.request,
        placed: resolved.placed,
        authorise_at: resolved.authorise_at,
        profile_digest: String::new(),
        contract: served.contract.clone(),
        not_after: resolved.cut_off.map_or(end, |cut_off| cut_off.min(end)),
    }
}

/// A permit as a durable claim yields it, claimed at the job's `now`, good until the frozen `not_after`.
///
/// # Panics
/// Never, as long as a claimed act yields a permit.
#[must_use]
pub fn permit(job: &Job, frozen: &Frozen, clock: Arc<dyn Clock>) -> Permit {
    let offer = Offer {
        attempt: job.attempt,
        rb_id: "kit-101".to_owned(),
        statement: String::new(),
        statement_sha256: String::new(),
        expires_at: frozen.not_after,
        frozen: frozen.clone(),
        problems: Vec::new(),
        notes: Vec::new(),
    };
    let claim = Claim {
        owner: "kit".to_owned(),
        epoch: 1,
        claimed_at: job.now,
        deadline: frozen.not_after,
        not_after: frozen.not_after,
    };
    let act = Act {
        act_id: job.act_id,
        version: 2,
        thread: "kit".to_owned(),
        handoff: Handoff::default(),
        principal: "kit".to_owned(),
        created_at: job.now,
        updated_at: job.now,
        seq: 2,
        head: String::new(),
        lines: 1,
        long_ids: false,
        attempt: job.attempt,
        tokens: Vec::new(),
        limit: frozen.not_after,
        undo_of: None,
        likeness: None,
        waiting: Vec::new(),
        released_by: None,
        stage: Stage::Executing(Execution {
            offer,
            confirmation: String::new(),
            claim,
            progress: Progress::default(),
        }),
    };
    let durable = Durable::attest(std::slice::from_ref(&act));
    Permit::from_claim(&act, &durable, clock).unwrap_or_else(|| panic!("a claimed act yields a permit"))
}
