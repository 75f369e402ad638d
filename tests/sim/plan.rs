//! What a seed stands for: the counterparty, the size of the run, and the daemons' settings.

use std::time::Duration;

use adapter_sim::{SimConfig, SimGuarantee};
use wilco_engine::Config;

use crate::mutants::Mutant;

/// How long after the last byte an act can still land at this counterparty.
pub const SETTLE_WINDOW_S: u32 = 20;

/// How far the store's clock is set forward at most: the settle window must have room for it, because the time between
/// two lookups is read off that clock.
pub const FORWARD_STEP_S: i64 = 4;

/// How many daemons share the store at most.
pub const DAEMONS: usize = 3;

/// The payees and the accounts the counterparty has on file for them.
pub const PAYEES: [(&str, &str); 4] = [
    ("marlow", "40-12-88/61102938"),
    ("northfield", "20-45-11/30099871"),
    ("ostler", "11-22-33/44556677"),
    ("penrose", "60-01-02/90807060"),
];

/// Whose account on file changes; nobody pays them.
pub const MOVING_PAYEE: (&str, &str) = ("quill", "30-30-30/12121212");

/// What the counterparty promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It knows every key for ever.
    Replayable,
    /// It forgets a key after an hour.
    ReplayableForAnHour,
    /// The same, and it refuses bytes that come ten minutes after their statement was made.
    ReplayableRefusingLate,
    /// It knows no keys; what it did can be looked up.
    Verifiable,
    /// The same, and it refuses bytes that come ten minutes after their statement was made.
    VerifiableRefusingLate,
    /// Nothing can be asked.
    Blind,
    /// What it did can be found, what it did not cannot.
    BlindWithEvidence,
}

/// The plan of one run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub kind: Kind,
    /// How many daemons: several on one store, or one that has it to itself.
    pub daemons: usize,
    /// How many threads.
    pub threads: usize,
    /// Over how many seconds they start.
    pub span_s: u64,
    /// Whether the store's clock is set forward by more than the settle window has room for.
    pub far_forward: bool,
    /// The rule that is broken, to see that the judge objects.
    pub mutant: Option<Mutant>,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, threads: usize) -> Plan {
        let kinds = [
            Kind::Replayable,
            Kind::Verifiable,
            Kind::Blind,
            Kind::ReplayableForAnHour,
            Kind::VerifiableRefusingLate,
            Kind::BlindWithEvidence,
            Kind::ReplayableRefusingLate,
        ];
        Plan {
            seed,
            kind: kinds[usize::try_from(seed % 7).unwrap_or(0)],
            daemons: if seed.is_multiple_of(4) { 1 } else { DAEMONS },
            threads,
            span_s: 600 + threads as u64 * 5,
            far_forward: std::env::var_os("WILCO_SIM_FAR_FORWARD").is_some(),
            mutant: None,
        }
    }

    /// A small run with a broken rule.
    pub fn with(mutant: Mutant, seed: u64, threads: usize) -> Plan {
        Plan {
            kind: mutant.kind(),
            mutant: Some(mutant),
            daemons: DAEMONS,
            ..Plan::new(seed, threads)
        }
    }

    /// Whether lookups tell what happened and what did not.
    pub fn is_asked(&self) -> bool {
        !matches!(self.kind, Kind::Blind | Kind::BlindWithEvidence)
    }

    /// Whether the same bytes again act once.
    pub fn knows_keys(&self) -> bool {
        matches!(
            self.kind,
            Kind::Replayable | Kind::ReplayableForAnHour | Kind::ReplayableRefusingLate
        )
    }

    /// The counterparty and its contract.
    pub fn counterparty(&self) -> SimConfig {
        let guarantee = match self.kind {
            Kind::Replayable | Kind::ReplayableForAnHour | Kind::ReplayableRefusingLate => {
                SimGuarantee::Replayable
            }
            Kind::Verifiable | Kind::VerifiableRefusingLate => SimGuarantee::Verifiable,
            Kind::Blind | Kind::BlindWithEvidence => SimGuarantee::Blind,
        };
        let on_file = PAYEES.iter().chain([&MOVING_PAYEE]);
        SimConfig {
            seed: self.seed,
            guarantee,
            key_window_s: matches!(
                self.kind,
                Kind::ReplayableForAnHour | Kind::ReplayableRefusingLate
            )
            .then_some(3_600),
            refused_after_s: matches!(
                self.kind,
                Kind::VerifiableRefusingLate | Kind::ReplayableRefusingLate
            )
            .then_some(600),
            evidence_only: self.kind == Kind::BlindWithEvidence,
            settle_window_s: SETTLE_WINDOW_S,
            delay_ms: 1,
            accounts: on_file
                .map(|(sup, acct)| ((*sup).to_owned(), (*acct).to_owned()))
                .collect(),
            concurrency: 24,
            ..SimConfig::default()
        }
    }

    /// A daemon's settings.
    pub fn config(&self, house: &str) -> Config {
        Config {
            agents: vec!["payer".to_owned()],
            statement_ttl: Duration::from_secs(300),
            handoff_age: Duration::from_secs(1_800),
            default_wait: Duration::from_secs(10),
            max_wait: Duration::from_secs(60),
            execution_deadline: Duration::from_secs(30),
            recovery_interval: Duration::from_secs(3),
            health_interval: Duration::from_secs(10),
            poll_interval: Duration::from_secs(2),
            lookup_pause: Duration::from_secs(1),
            lookup_pause_max: Duration::from_secs(30),
            lookups_before_escalation: 5,
            concurrency: 64,
            house: house.to_owned(),
            takeover_allowance: Duration::from_secs(40),
            sole_owner: self.daemons == 1,
            orphan: false,
        }
    }
}
