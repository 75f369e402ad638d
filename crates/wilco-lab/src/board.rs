//! Armed faults of a counterparty that runs inside the lab: oldest first, each met so many times. They live in memory;
//! a restarted lab is well.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many knobs of one counterparty may be armed at once.
pub const ARMED_MAX: usize = 64;

/// One armed knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Armed<F> {
    /// What it does.
    pub fault: F,
    /// How often it still does it.
    pub times: u32,
    /// The delay of those that delay.
    pub delay: Duration,
}

/// All armed knobs of one counterparty, oldest first.
#[derive(Debug)]
pub struct Board<F>(Mutex<VecDeque<Armed<F>>>);

impl<F> Default for Board<F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<F: Copy> Board<F> {
    /// Arms a knob behind those already armed; false when [`ARMED_MAX`] are.
    pub fn arm(&self, armed: Armed<F>) -> bool {
        let mut board = self.board();
        if board.len() >= ARMED_MAX {
            return false;
        }
        board.push_back(armed);
        true
    }

    /// The oldest knob that `meets` this moment, if any; it counts as used.
    pub fn take(&self, meets: impl Fn(F) -> bool) -> Option<Armed<F>> {
        let mut board = self.board();
        let at = board.iter().position(|armed| meets(armed.fault))?;
        let armed = board.get_mut(at)?;
        armed.times = armed.times.saturating_sub(1);
        let taken = *armed;
        if taken.times == 0 {
            board.remove(at);
        }
        Some(taken)
    }

    /// What is armed.
    pub fn list(&self) -> Vec<Armed<F>> {
        self.board().iter().copied().collect()
    }

    /// Disarms everything.
    pub fn clear(&self) {
        self.board().clear();
    }

    fn board(&self) -> MutexGuard<'_, VecDeque<Armed<F>>> {
        // Nothing between lock and unlock can leave the list half changed, so a panicked holder does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(fault: char, times: u32) -> Armed<char> {
        Armed {
            fault,
            times,
            delay: Duration::ZERO,
        }
    }

    #[test]
    fn knobs_are_met_in_order_by_what_they_meet_and_run_out() {
        let board = Board::default();
        assert!(board.arm(armed('a', 2)) && board.arm(armed('b', 1)));
        assert_eq!(board.take(|f| f == 'b').map(|a| a.fault), Some('b'));
        let left: String = std::iter::from_fn(|| board.take(|_| true))
            .map(|a| a.fault)
            .collect();
        assert_eq!(left, "aa");
        assert_eq!(board.list(), []);
    }

    #[test]
    fn the_board_is_bounded() {
        let board = Board::default();
        assert!((0..ARMED_MAX).all(|_| board.arm(armed('a', 1))));
        assert!(!board.arm(armed('a', 1)));
        board.clear();
        assert!(board.arm(armed('a', 1)));
    }
}
