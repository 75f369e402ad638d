//! Chance that comes from the seed alone.

/// A stream of numbers: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A stream of its own for one part of a run, so that what one part draws does not move the others.
    pub fn of(seed: u64, part: u64) -> Chance {
        Chance(mix(mix(seed ^ 0x6b69_6c6c) ^ part))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.number() % (most - least + 1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, n: u64) -> bool {
        self.number() % 100 < n
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let at = usize::try_from(self.number() % of.len() as u64).unwrap_or(0);
        of[at]
    }

    /// The same, in another order.
    pub fn shuffled<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let mut left = of.to_vec();
        let mut out = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let at = usize::try_from(self.number() % left.len() as u64).unwrap_or(0);
            out.push(left.swap_remove(at));
        }
        out
    }
}

fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
