//! The operating system's randomness.

use std::sync::{Mutex, PoisonError};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};
use wilco_engine::Chance;

/// The operating system gives no randomness, so no key and no id can be made.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no randomness: {0}")]
pub struct NoRandomness(String);

/// Random bytes for a secret.
///
/// # Errors
/// [`NoRandomness`]; a secret is never made of anything less.
pub fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut buffer = [0u8; N];
    SysRng
        .try_fill_bytes(&mut buffer)
        .map_err(|e| NoRandomness(e.to_string()))?;
    Ok(buffer)
}

/// Randomness for ids: seeded once by the operating system, so that drawing it later cannot fail.
pub struct Ids(Mutex<StdRng>);

impl Ids {
    /// Seeded.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn new() -> Result<Ids, NoRandomness> {
        Ok(Ids(Mutex::new(StdRng::from_seed(bytes::<32>()?))))
    }
}

impl Chance for Ids {
    fn fill(&self, buffer: &mut [u8]) {
        // A draw that was cut short by a panic leaves no state that could be wrong.
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill_bytes(buffer);
    }
}
