//! Broken rules, one at a time: a judge that never objects proves nothing. Each mutant breaks what the daemons rely on
//! (the store, the folder's lock, the counterparty's contract, people's word) the way a bug there would, and must be caught.

use std::sync::Arc;

use wilco_core::write::{Decide, Durable};
use wilco_core::{Act, Change, Expect, Stage, State, Written};
use wilco_store::{Keeper, MemoryKeeper, StoreError};

use crate::plan::Kind;

/// What is broken in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The store answers that a claim stands, and has lost it.
    LosesClaims,
    /// The store answers that an act is closed, and has lost that.
    LosesClosings,
    /// The store writes over whatever version it finds.
    IgnoresVersions,
    /// The store does not look for likely twins.
    IgnoresTwins,
    /// The store decides with a clock that runs back.
    RunsBack,
    /// The adapter sends twice to a counterparty that knows no keys.
    SendsTwice,
    /// Bytes land long after the settle window the contract declares.
    LandsLate,
    /// Lookups say that there is nothing, whatever there is.
    LooksAway,
    /// A frozen process is taken for dead, and another is started on its folder.
    SharesAHouse,
    /// People vouch for the death of processes that live.
    VouchesBlindly,
}

impl Mutant {
    pub const ALL: [Mutant; 10] = [
        Mutant::LosesClaims,
        Mutant::LosesClosings,
        Mutant::IgnoresVersions,
        Mutant::IgnoresTwins,
        Mutant::RunsBack,
        Mutant::SendsTwice,
        Mutant::LandsLate,
        Mutant::LooksAway,
        Mutant::SharesAHouse,
        Mutant::VouchesBlindly,
    ];

    /// At which counterparty it shows.
    pub fn kind(self) -> Kind {
        match self {
            Mutant::IgnoresVersions | Mutant::LosesClosings => Kind::Replayable,
            _ => Kind::Verifiable,
        }
    }

    /// What the judge may say of it: anything else is not a catch but another bug.
    pub fn signs(self) -> &'static [&'static str] {
        match self {
            Mutant::LosesClaims => &["without a committed claim"],
            Mutant::LosesClosings => &["not what the store holds"],
            Mutant::IgnoresVersions => &[
                " after ",
                "from Some(",
                "closing line was replaced",
                "settled what",
                "owner changed",
                "claimed it for",
                // The confirmation of the claim that was written over is in the thread already.
                "refused with",
            ],
            Mutant::IgnoresTwins => &["likely twin"],
            Mutant::RunsBack => &["another epoch or instant", "after its statement had ended"],
            Mutant::SendsTwice => &["effects"],
            Mutant::LandsLate | Mutant::LooksAway => &["effect", "evidence contradicts"],
            Mutant::SharesAHouse | Mutant::VouchesBlindly => {
                &["may still send", "effect", "evidence contradicts", "settled what"]
            }
        }
    }
}

/// A write as a broken store makes it, and whether it really stands.
pub async fn write(
    mutant: Mutant,
    kept: &MemoryKeeper,
    decide: Decide,
    strikes: bool,
) -> (Result<Written, StoreError>, bool) {
    let decide = Arc::new(decide);
    match mutant {
        Mutant::LosesClaims if strikes => lose(kept, decide, is_first_claim).await,
        Mutant::LosesClosings if strikes => lose(kept, decide, |act| act.state() == State::Done).await,
        Mutant::RunsBack if strikes => {
            let late: Decide = Box::new(move |now| decide(now.plus_seconds(-90)));
            (kept.write(late).await, true)
        }
        Mutant::IgnoresTwins => {
            let unguarded: Decide = Box::new(move |now| {
                let mut changes = decide(now);
                changes.iter_mut().for_each(|change| change.unless_twin = None);
                changes
            });
            (kept.write(unguarded).await, true)
        }
        Mutant::IgnoresVersions => {
            let first = Arc::clone(&decide);
            let written = kept.write(Box::new(move |now| first(now))).await;
            let Ok(Written::Stale {
                current: Some(current),
                ..
            }) = &written
            else {
                return (written, true);
            };
            let current = current.clone();
            let over: Decide = Box::new(move |now| {
                let mut changes = decide(now);
                changes.iter_mut().for_each(|change| rebase(change, &current));
                changes
            });
            (kept.write(over).await, true)
        }
        _ => (kept.write(Box::new(move |now| decide(now))).await, true),
    }
}

fn is_first_claim(act: &Act) -> bool {
    matches!(&act.stage, Stage::Executing(e) if e.claim.epoch == 1 && e.progress.lookups == 0 && !e.progress.accepted)
}

/// Answers as if it stood, where one of the acts is such; otherwise writes it.
async fn lose(
    kept: &MemoryKeeper,
    decide: Arc<Decide>,
    such: fn(&Act) -> bool,
) -> (Result<Written, StoreError>, bool) {
    let at = kept.now();
    let changes = decide(at);
    if !changes.iter().any(|change| such(&change.act)) {
        return (kept.write(Box::new(move |now| decide(now))).await, true);
    }
    let acts: Vec<Act> = changes
        .into_iter()
        .map(|change| Act {
            version: change.act.version + 1,
            updated_at: at,
            ..change.act
        })
        .collect();
    let durable = Durable::attest(&acts);
    (Ok(Written::Advanced { at, acts, durable }), false)
}

/// Makes a change fit whatever stands.
fn rebase(change: &mut Change, current: &Act) {
    if change.act.act_id == current.act_id {
        change.expect = Expect::Version(current.version);
        change.act.version = current.version;
        change.act.seq = current.seq;
        change.act.head.clone_from(&current.head);
    }
}
