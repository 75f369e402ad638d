//! Medians, and what lies around them.

/// One figure over the rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread(Vec<f64>);

impl Spread {
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn rounds(&self) -> &[f64] {
        &self.0
    }

    /// The middle one; of an even number the mean of the two in the middle. 0 of none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let upper = sorted.len() / 2;
        let lower = sorted.len().saturating_sub(1) / 2;
        match (sorted.get(lower), sorted.get(upper)) {
            (Some(a), Some(b)) => f64::midpoint(*a, *b),
            _ => 0.0,
        }
    }

    pub fn min(&self) -> f64 {
        self.0.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    pub fn max(&self) -> f64 {
        self.0.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }

    /// Round by round, this over `other`.
    pub fn over(&self, other: &Spread) -> Spread {
        Spread(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }
}

/// How long single calls took.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    sorted_us: Vec<u64>,
}

impl Latencies {
    pub fn new(mut took_us: Vec<u64>) -> Latencies {
        took_us.sort_unstable();
        Latencies { sorted_us: took_us }
    }

    /// The time, in milliseconds, that `share` (0 to 1) of the calls did not exceed.
    pub fn ms(&self, share: f64) -> f64 {
        let last = self.sorted_us.len().saturating_sub(1);
        let at = (share * self.sorted_us.len() as f64).ceil() as usize;
        let us = self.sorted_us.get(at.saturating_sub(1).min(last)).copied();
        us.unwrap_or(0) as f64 / 1000.0
    }
}
