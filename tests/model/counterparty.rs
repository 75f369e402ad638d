//! The counterparty: what reaches it, what it does about it, and what it says when it is asked. It keeps its own book,
//! which is the judge of what really happened.

use wilco_core::Contract;
use wilco_core::contract::{Identity, LateSend, LookupBy};

use crate::decisions::Heard;
use crate::words::{Messenger, TICK_S, Tick};

/// What it answers to bytes that reached it, and keeps under the act's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Done.
    Executed,
    /// Taken on, not finished.
    Accepted,
    /// Refused, and the refusal is kept.
    Rejected,
    /// Refused, and nothing is kept.
    Unfit,
}

/// Bytes on their way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes {
    /// When they left.
    pub left_at: Tick,
    /// The call that waits for the answer: house, run and epoch.
    pub call: (u8, u8, u8),
}

/// Its book, as far as the act is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Counterparty {
    /// When its own object was put in place, by the last statement.
    pub placed_at: Tick,
    /// How many sendings have left us.
    pub sendings: u8,
    /// How often it has acted.
    pub effects: u8,
    /// What it keeps under the act's identity, and since when.
    pub record: Option<(Tick, Word)>,
    /// What is on its way.
    pub flight: Vec<Bytes>,
}

impl Counterparty {
    /// Bytes leave.
    pub fn send(&mut self, now: Tick, from: Messenger) {
        self.sendings += 1;
        self.flight.push(Bytes {
            left_at: now,
            call: (from.owner.house, from.owner.boot, from.epoch),
        });
        self.flight.sort_unstable();
    }

    /// Time moves on: what has not landed within the settle window never does.
    pub fn tick(&mut self, contract: &Contract, now: Tick) {
        self.flight.retain(|bytes| now < bytes.left_at + window(contract));
    }

    /// Bytes land. `fresh` is what it does with an act it does not know; the answer goes to the call named.
    pub fn land(&mut self, contract: &Contract, now: Tick, nth: usize, fresh: Word) -> (Messenger, Word) {
        let bytes = self.flight.remove(nth);
        let (house, boot, epoch) = bytes.call;
        let call = Messenger {
            owner: crate::words::Owner { house, boot },
            epoch,
        };
        if let Some(word) = self.replayed(contract, now) {
            return (call, word);
        }
        match fresh {
            Word::Executed => self.effects += 1,
            Word::Accepted | Word::Rejected | Word::Unfit => {}
        }
        if fresh != Word::Unfit {
            self.record = Some((now, fresh));
        }
        (call, fresh)
    }

    /// What it says to bytes without looking at them afresh: they are too late, or it knows the act.
    pub fn replayed(&self, contract: &Contract, now: Tick) -> Option<Word> {
        if self.refuses_late(contract, now) {
            return Some(Word::Unfit);
        }
        self.enforced(contract, now)
    }

    /// It finishes what it took on.
    pub fn finish(&mut self, word: Word) {
        let since = self.record.map_or(0, |(since, _)| since);
        self.effects += u8::from(word == Word::Executed);
        self.record = Some((since, word));
    }

    /// What it says when it is asked.
    pub fn found(&self, contract: &Contract, asked_at: Tick) -> Heard {
        match (contract.lookup, self.record) {
            (LookupBy::None, _) => Heard::LookupUnknown,
            (_, None) => Heard::Absent { asked_at },
            (_, Some((_, word))) => answer(word),
        }
    }

    /// Whether bytes that land at some instant from `now` to `until` would have an effect.
    pub fn would_act(&self, contract: &Contract, now: Tick, until: Tick) -> bool {
        let acts = |at| {
            matches!(
                self.replayed(contract, at),
                None | Some(Word::Executed | Word::Accepted)
            )
        };
        (now..=until).any(acts)
    }

    /// When the last of what is on its way can land.
    pub fn lands_until(&self, contract: &Contract) -> Option<Tick> {
        self.flight
            .last()
            .map(|bytes| bytes.left_at + window(contract) - 1)
    }

    /// Whether it has taken it on and not finished.
    pub fn is_pending(&self) -> bool {
        self.record.is_some_and(|(_, word)| word == Word::Accepted)
    }

    fn enforced(&self, contract: &Contract, now: Tick) -> Option<Word> {
        let (since, word) = self.record?;
        let holds = match contract.identity {
            Identity::Enforced => true,
            Identity::Window(seconds) => now < since + ticks(seconds),
            Identity::None => false,
        };
        holds.then_some(word)
    }

    fn refuses_late(&self, contract: &Contract, now: Tick) -> bool {
        match contract.late_send {
            LateSend::RefusedAfter(seconds) => now >= self.placed_at + ticks(seconds),
            LateSend::Accepted => false,
        }
    }
}

/// What a word of its means for the call or lookup that hears it.
pub fn answer(word: Word) -> Heard {
    match word {
        Word::Executed => Heard::Executed,
        Word::Accepted => Heard::Accepted,
        Word::Rejected | Word::Unfit => Heard::Rejected,
    }
}

fn window(contract: &Contract) -> Tick {
    ticks(contract.settle_window_s)
}

fn ticks(seconds: u32) -> Tick {
    Tick::try_from(seconds / TICK_S).expect("the model's times are few ticks")
}
