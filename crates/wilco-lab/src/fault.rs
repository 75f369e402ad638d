//! Fault knobs: what is armed, and who takes it. Faults live in memory; a restarted lab is a healthy one.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::obie::Kind;

/// The endpoints that take faults, whatever the version they are spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/domestic-payment-consents`
    Consents,
    /// `/domestic-payments`
    Payments,
    /// `/domestic-scheduled-payment-consents`
    ScheduledConsents,
    /// `/domestic-scheduled-payments`
    ScheduledPayments,
}

impl Endpoint {
    /// Every endpoint, in the order the README lists them.
    pub const ALL: [Self; 4] = [
        Self::Consents,
        Self::Payments,
        Self::ScheduledConsents,
        Self::ScheduledPayments,
    ];

    /// Where consents of a kind are placed.
    pub const fn consents(kind: Kind) -> Self {
        match kind {
            Kind::Domestic => Self::Consents,
            Kind::Scheduled => Self::ScheduledConsents,
        }
    }

    /// Where payments of a kind are ordered.
    pub const fn payments(kind: Kind) -> Self {
        match kind {
            Kind::Domestic => Self::Payments,
            Kind::Scheduled => Self::ScheduledPayments,
        }
    }

    /// What it is about.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Consents | Self::Payments => Kind::Domestic,
            Self::ScheduledConsents | Self::ScheduledPayments => Kind::Scheduled,
        }
    }

    /// The last part of its path, which is also its name in `POST /lab/faults`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Consents => "domestic-payment-consents",
            Self::Payments => "domestic-payments",
            Self::ScheduledConsents => "domestic-scheduled-payment-consents",
            Self::ScheduledPayments => "domestic-scheduled-payments",
        }
    }
}

/// What may go wrong. The README's table says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Connection closed, nothing done.
    DropBefore,
    /// Done, connection closed without a reply.
    DropAfterAccept,
    /// Done, answered 500.
    ErrorAfterAccept,
    /// Done at once, answered later.
    Slow,
    /// Connection closed at once, done later.
    Late,
    /// Explicit 400, nothing done.
    Refuse,
    /// Recorded and reported with another amount.
    WrongAmount,
    /// Recorded and reported with another account.
    WrongAccount,
    /// Accepted and on its way, rejected and reversed later.
    RejectLater,
    /// Reads do not see the resource yet.
    NotFoundThenFound,
}

impl Fault {
    /// Every fault, in the order the README lists them.
    pub const ALL: [Self; 10] = [
        Self::DropBefore,
        Self::DropAfterAccept,
        Self::ErrorAfterAccept,
        Self::Slow,
        Self::Late,
        Self::Refuse,
        Self::WrongAmount,
        Self::WrongAccount,
        Self::RejectLater,
        Self::NotFoundThenFound,
    ];

    /// Its name in `POST /lab/faults`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DropBefore => "drop-before",
            Self::DropAfterAccept => "drop-after-accept",
            Self::ErrorAfterAccept => "5xx-after-accept",
            Self::Slow => "slow",
            Self::Late => "late",
            Self::Refuse => "refuse",
            Self::WrongAmount => "wrong-amount",
            Self::WrongAccount => "wrong-account",
            Self::RejectLater => "reject-later",
            Self::NotFoundThenFound => "not-found-then-found",
        }
    }

    /// Whether the fault meets reads; every other one meets POSTs.
    const fn meets_reads(self) -> bool {
        matches!(self, Self::NotFoundThenFound)
    }
}

/// One armed knob.
#[derive(Debug, Clone, Copy)]
pub struct Armed {
    /// Where it waits.
    pub endpoint: Endpoint,
    /// What it does.
    pub fault: Fault,
    /// How many more requests it meets.
    pub times: u32,
    /// The delay of `slow`, `late` and `reject-later`.
    pub delay: Duration,
}

/// How many knobs may be armed at once.
pub const ARMED_MAX: usize = 64;

/// All armed knobs, oldest first. Each request is met by at most one.
#[derive(Debug, Default)]
pub struct FaultBoard(Mutex<VecDeque<Armed>>);

impl FaultBoard {
    /// Arms a knob behind those already armed; false when [`ARMED_MAX`] are.
    pub fn arm(&self, armed: Armed) -> bool {
        let mut board = self.board();
        if board.len() >= ARMED_MAX {
            return false;
        }
        board.push_back(armed);
        true
    }

    /// The fault that meets this POST, if any; it counts as used.
    pub fn take_post(&self, endpoint: Endpoint) -> Option<Armed> {
        self.take(|armed| armed.endpoint == endpoint && !armed.fault.meets_reads())
    }

    /// Whether this read must not see its resource yet; it counts as used.
    pub fn take_read(&self, endpoint: Endpoint) -> bool {
        self.take(|armed| armed.endpoint == endpoint && armed.fault.meets_reads())
            .is_some()
    }

    /// Disarms everything.
    pub fn clear(&self) {
        self.board().clear();
    }

    /// What is armed.
    pub fn armed(&self) -> Vec<Armed> {
        self.board().iter().copied().collect()
    }

    fn take(&self, wanted: impl Fn(&Armed) -> bool) -> Option<Armed> {
        let mut board = self.board();
        let at = board.iter().position(wanted)?;
        let armed = board.get_mut(at)?;
        armed.times = armed.times.saturating_sub(1);
        let taken = *armed;
        if taken.times == 0 {
            board.remove(at);
        }
        Some(taken)
    }

    fn board(&self) -> MutexGuard<'_, VecDeque<Armed>> {
        // Nothing between lock and unlock can leave the list half changed, so a panicked holder does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(endpoint: Endpoint, fault: Fault, times: u32) -> Armed {
        Armed {
            endpoint,
            fault,
            times,
            delay: Duration::ZERO,
        }
    }

    #[test]
    fn knobs_meet_their_endpoint_and_verb_in_order_and_run_out() {
        let board = FaultBoard::default();
        assert!(board.arm(armed(Endpoint::Payments, Fault::NotFoundThenFound, 1)));
        assert!(board.arm(armed(Endpoint::Payments, Fault::DropBefore, 2)));
        assert!(board.arm(armed(Endpoint::Payments, Fault::Refuse, 1)));
        assert!(board.take_post(Endpoint::Consents).is_none());
        let taken: Vec<_> = std::iter::from_fn(|| board.take_post(Endpoint::Payments))
            .map(|armed| armed.fault)
            .collect();
        assert_eq!(taken, [Fault::DropBefore, Fault::DropBefore, Fault::Refuse]);
        assert!(board.take_read(Endpoint::Payments));
        assert!(!board.take_read(Endpoint::Payments));
        assert!(board.armed().is_empty());
    }

    #[test]
    fn the_board_is_bounded() {
        let board = FaultBoard::default();
        for _ in 0..ARMED_MAX {
            assert!(board.arm(armed(Endpoint::Consents, Fault::Slow, 1)));
        }
        assert!(!board.arm(armed(Endpoint::Consents, Fault::Slow, 1)));
        board.clear();
        assert!(board.arm(armed(Endpoint::Consents, Fault::Slow, 1)));
    }
}
