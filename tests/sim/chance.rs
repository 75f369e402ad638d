//! Chance that comes from the seed alone.

use std::sync::Mutex;

use crate::locked;

/// A stream of numbers: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A stream of its own for one part of a run, so that what one part draws does not move the others.
    pub fn of(seed: u64, part: &str) -> Chance {
        let named = part
            .bytes()
            .fold(seed ^ 0x5157_a1c0, |state, byte| mix(state ^ u64::from(byte)));
        Chance(named)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.number() % (most - least + 1)
    }

    /// True in so many of a thousand cases.
    pub fn thousandths(&mut self, n: u64) -> bool {
        self.number() % 1000 < n
    }

    /// One of these.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = usize::try_from(self.number() % of.len() as u64).unwrap_or(0);
        &of[at]
    }

    /// An index below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.number() % n as u64).unwrap_or(0)
    }
}

fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream that several share.
pub struct Shared(Mutex<Chance>);

impl Shared {
    pub fn new(chance: Chance) -> Shared {
        Shared(Mutex::new(chance))
    }

    /// Draws.
    pub fn draw<T>(&self, what: impl FnOnce(&mut Chance) -> T) -> T {
        what(&mut locked(&self.0))
    }
}

impl wilco_engine::Chance for Shared {
    fn fill(&self, buffer: &mut [u8]) {
        self.draw(|chance| {
            for byte in buffer {
                *byte = (chance.number() >> 32) as u8;
            }
        });
    }
}
