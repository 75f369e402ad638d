//! What can go wrong between us and a counterparty, and how chance picks it.

use wilco_core::ActId;

/// What happens to one sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing goes wrong. For scripts; chance needs no name for it.
    Fine,
    /// No byte leaves.
    NotConnected,
    /// The bytes never arrive, and nobody says so.
    LostBefore,
    /// Carried out; the answer is lost.
    LostAfter,
    /// Nobody answers; the bytes arrive that many seconds later.
    Late(i64),
    /// The bytes arrive twice; the first answer is heard.
    Duplicate,
    /// Carried out with another value in a slot, and reported so. A slot the order does not have is added.
    WrongValue(String, String),
    /// Carried out; the answer takes that many seconds.
    Slow(i64),
    /// The sender stalls that many seconds between asking the permit and the first byte; then all goes well.
    Stalled(i64),
    /// Taken on, and finished that many seconds later.
    Unfinished(i64),
    /// Taken on, and refused that many seconds later.
    UnfinishedThenRejected(i64),
    /// Refused outright.
    Reject,
    /// Carried out, the answer lost, and the next so many lookups do not see it.
    Hidden(u32),
    /// Carried out; the answer cannot be read.
    Garbage,
}

/// What happens to one lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupFault {
    /// No answer.
    NoAnswer,
    /// The counterparty does not see the act, whether or not it is there.
    NotFound,
}

/// What happens to one resolve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveFault {
    /// The counterparty is down for a moment.
    Passing,
    /// It refuses the job, with this `why` code.
    Refused(&'static str),
    /// The register has another value for a slot: what is stated differs from the handoff.
    WrongValue(String, String),
}

impl Fault {
    /// The names [`Fault::from_word`] knows.
    pub const WORDS: [&'static str; 12] = [
        "not-connected",
        "lost-before",
        "lost-after",
        "late",
        "duplicate",
        "slow",
        "stalled",
        "unfinished",
        "unfinished-then-rejected",
        "reject",
        "hidden",
        "garbage",
    ];

    /// The fault of a name, with its delay at two seconds and its count at two.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Fault> {
        Some(match word {
            "not-connected" => Fault::NotConnected,
            "lost-before" => Fault::LostBefore,
            "lost-after" => Fault::LostAfter,
            "late" => Fault::Late(2),
            "duplicate" => Fault::Duplicate,
            "slow" => Fault::Slow(2),
            "stalled" => Fault::Stalled(2),
            "unfinished" => Fault::Unfinished(2),
            "unfinished-then-rejected" => Fault::UnfinishedThenRejected(2),
            "reject" => Fault::Reject,
            "hidden" => Fault::Hidden(2),
            "garbage" => Fault::Garbage,
            _ => return None,
        })
    }
}

/// How often which fault strikes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Odds {
    seed: u64,
    faults: Vec<(u32, Fault)>,
}

impl Odds {
    /// Thousandths of all sendings for each fault.
    pub fn new(seed: u64, faults: Vec<(u32, Fault)>) -> Odds {
        Odds { seed, faults }
    }

    /// The fault of an act's n-th sending. Depends on the seed, the act and n alone, never on who came first.
    pub fn draw(&self, act: ActId, n: u32) -> Fault {
        if self.faults.is_empty() {
            return Fault::Fine;
        }
        let bytes = act.as_bytes().chunks(8);
        let words = bytes.map(|c| c.iter().fold(0_u64, |word, b| word << 8 | u64::from(*b)));
        let mixed = words
            .chain([u64::from(n)])
            .fold(self.seed, |state, word| mix(state ^ word));
        let mut left = u32::try_from(mixed % 1000).unwrap_or(0);
        for (thousandths, fault) in &self.faults {
            if left < *thousandths {
                return fault.clone();
            }
            left -= thousandths;
        }
        Fault::Fine
    }
}

/// SplitMix64's step (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wilco_core::Timestamp;

    #[test]
    fn chance_is_the_same_for_the_same_seed_and_keeps_to_its_odds() {
        let odds = |seed| Odds::new(seed, vec![(100, Fault::LostAfter), (50, Fault::Reject)]);
        let acts = (0_u64..10_000).map(|n| {
            let mut random = [0; 10];
            random[2..].copy_from_slice(&n.to_be_bytes());
            ActId::new(Timestamp(1), random)
        });
        let acts: Vec<ActId> = acts.collect();
        let draw = |seed| acts.iter().map(|a| odds(seed).draw(*a, 1)).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let count = |fault| draw(7).iter().filter(|f| **f == fault).count();
        assert!(
            (900..1100).contains(&count(Fault::LostAfter)),
            "{}",
            count(Fault::LostAfter)
        );
        assert!(
            (400..600).contains(&count(Fault::Reject)),
            "{}",
            count(Fault::Reject)
        );
    }

    #[test]
    fn every_name_is_a_fault() {
        for word in Fault::WORDS {
            assert!(Fault::from_word(word).is_some(), "{word}");
        }
        assert_eq!(Fault::from_word("fire"), None);
    }
}
