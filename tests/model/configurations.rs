//! What is explored: small houses, each with one kind of counterparty and one kind of trouble in it.
//!
//! Everything is bounded: a few minutes of one tick each, two callers with short scripts, one crash. Where a configuration is
//! not about stating, it begins with the handoff stated at the first instant and both callers knowing the statement.

use wilco_core::contract::{Identity, LateSend, LookupBy};

use crate::counterparty::Word;
use crate::decisions::{Decisions, How, Setting};
use crate::mutation::Mutation;
use crate::shell::{House, Turn, Turns};
use crate::state::Ask;
use crate::words::{TICK_S, Tick, contract};

/// A kind of house to explore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The counterparty enforces the act's identity for ever.
    Replayable,
    /// It does so for a while, and refuses what comes after that while.
    ReplayableForAWhile,
    /// It does so for a while and acts again on what comes later, as what was paused does.
    Forgetful,
    /// It can be asked about the act.
    Verifiable,
    /// It can be asked, and refuses what comes late.
    VerifiableInTime,
    /// It cannot be asked.
    Blind,
    /// What it shows proves presence, never absence.
    EvidenceOnly,
    /// It takes acts on and finishes them later.
    Slow,
    /// A cancel, before the handoff or after it, twice.
    Cancelled,
    /// Statements run out and are made again.
    Expiring,
    /// Callers that confirm badly, decline, and confirm what was stated before.
    Careless,
    /// The store writes and does not say so.
    Unheard,
}

const YES: Ask = Ask::Commit(How::Yes);
const A: u8 = 0;
const B: u8 = 1;

impl Kind {
    /// The house, with one rule broken if asked.
    pub fn house(self, mutation: Option<Mutation>) -> House {
        let keyed = |identity, late| house(identity, LookupBy::Reference, late, mutation);
        let asked = |lookup| house(Identity::None, lookup, LateSend::Accepted, mutation);
        match self {
            Kind::Replayable => House {
                words: vec![Word::Executed, Word::Rejected],
                crashing: [false, true],
                lost_lookups: 0,
                ..keyed(Identity::Enforced, LateSend::Accepted)
            },
            Kind::ReplayableForAWhile => House {
                words: vec![Word::Executed, Word::Rejected],
                lost_lookups: 0,
                ..keyed(Identity::Window(ticks(3)), LateSend::RefusedAfter(ticks(2)))
            },
            Kind::Forgetful => keyed(Identity::Window(ticks(2)), LateSend::Accepted),
            Kind::Verifiable => House {
                scripts: [vec![(YES, A)], vec![(YES, B)]],
                ..asked(LookupBy::Reference)
            },
            Kind::VerifiableInTime => House {
                crashing: [true, true],
                words: vec![Word::Executed, Word::Unfit],
                ..keyed(Identity::None, LateSend::RefusedAfter(ticks(2)))
            },
            Kind::Blind => asked(LookupBy::None),
            Kind::EvidenceOnly => asked(LookupBy::Evidence),
            Kind::Slow => House {
                words: vec![Word::Accepted],
                horizon: 3,
                ..asked(LookupBy::NaturalKey)
            },
            Kind::Cancelled => House {
                scripts: [
                    vec![(Ask::Prepare, A), (YES, A), (Ask::Prepare, A)],
                    vec![(Ask::Cancel, B), (Ask::Cancel, A), (Ask::Prepare, B)],
                ],
                horizon: 2,
                ..stating(mutation)
            },
            Kind::Expiring => House {
                scripts: [
                    vec![(Ask::Prepare, A), (YES, A), (Ask::Prepare, B)],
                    vec![(Ask::Prepare, B), (YES, B), (YES, A)],
                ],
                lossy: true,
                ..stating(mutation)
            },
            Kind::Careless => House {
                scripts: [
                    vec![
                        (Ask::Commit(How::WithoutDigest), A),
                        (Ask::Commit(How::WithoutLine), A),
                        (YES, A),
                    ],
                    vec![(Ask::Commit(How::No), B), (Ask::Prepare, B), (YES, B)],
                ],
                stated: true,
                horizon: 2,
                ..stating(mutation)
            },
            Kind::Unheard => House {
                crashes: 0,
                lost_commits: 2,
                lost_lookups: 0,
                scripts: [vec![(YES, A), (YES, A)], vec![]],
                ..asked(LookupBy::Reference)
            },
        }
    }

    /// Turns its exploration must take, or it shows less than it claims.
    pub fn turns(self) -> &'static [Turn] {
        match self {
            Kind::Replayable => &[
                Turn::TakenFromTheDead,
                Turn::TakenFromTheSilent,
                Turn::SentAgain,
                Turn::StaleNews,
                Turn::LandedLate,
            ],
            Kind::ReplayableForAWhile => &[
                Turn::SentAgain,
                Turn::Vouched,
                Turn::RefusedLate,
                Turn::ClosedByLookup,
            ],
            Kind::Forgetful => &[Turn::TakenFromTheDead, Turn::TakenFromTheSilent, Turn::LandedLate],
            Kind::Verifiable => &[
                Turn::TakenFromTheDead,
                Turn::TakenFromTheSilent,
                Turn::StaleNews,
                Turn::ClosedByLookup,
                Turn::LandedLate,
            ],
            Kind::VerifiableInTime => &[Turn::TakenFromTheSilent, Turn::RefusedLate, Turn::ClosedByLookup],
            Kind::Blind | Kind::EvidenceOnly => &[Turn::TakenFromTheDead, Turn::TakenFromTheSilent],
            Kind::Slow => &[Turn::TakenFromTheDead, Turn::TakenFromTheSilent],
            Kind::Cancelled => &[Turn::CancelledFirst, Turn::CancelLost, Turn::Replayed],
            Kind::Expiring => &[
                Turn::Lapsed,
                Turn::LateYes,
                Turn::RepreparedAndDone,
                Turn::Replayed,
            ],
            Kind::Careless => &[Turn::Lapsed, Turn::RepreparedAndDone],
            Kind::Unheard => &[Turn::TakenFromTheDead, Turn::ClosedByLookup],
        }
    }
}

/// The house most kinds start from: one payment, confirmed at A, and one crash of A.
fn house(identity: Identity, lookup: LookupBy, late_send: LateSend, mutation: Option<Mutation>) -> House {
    let setting = Setting {
        contract: contract(identity, lookup, 2, late_send),
        statement: 1,
        end: 3,
        deadline: 0,
        allowance: 1,
    };
    House {
        decisions: Decisions::new(setting, mutation),
        scripts: [vec![(YES, A)], vec![]],
        horizon: 4,
        words: vec![Word::Executed],
        crashing: [true, false],
        crashes: 1,
        lost_commits: 0,
        lost_lookups: 1,
        stated: true,
        lossy: false,
        turns: Turns::default(),
    }
}

/// The house of the kinds that are about stating and confirming: nobody takes anything over.
fn stating(mutation: Option<Mutation>) -> House {
    let mut house = house(Identity::None, LookupBy::Reference, LateSend::Accepted, mutation);
    house.decisions.setting.deadline = 20;
    House {
        stated: false,
        crashes: 0,
        horizon: 3,
        ..house
    }
}

fn ticks(ticks: Tick) -> u32 {
    u32::from(ticks) * TICK_S
}
