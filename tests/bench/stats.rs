//! Medians, and what lies around them.

/// One figure over the rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread(Vec<f64>);

impl Spread {
    /// A figure that was taken once.
    pub fn of(value: f64) -> Spread {
        Spread(vec![value])
    }

    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn rounds(&self) -> &[f64] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    /// Round by round, what `with` makes of this and `other`.
    pub fn with(&self, other: &Spread, with: impl Fn(f64, f64) -> f64) -> Spread {
        Spread(self.0.iter().zip(&other.0).map(|(a, b)| with(*a, *b)).collect())
    }

    /// Round by round, this over `other`.
    pub fn over(&self, other: &Spread) -> Spread {
        self.with(other, |a, b| a / b)
    }
}
