//! Randomness as an argument.

use std::fmt::Debug;
use std::sync::Mutex;

use rand::{Rng, SeedableRng};

/// Where random bytes come from.
pub trait Entropy: Debug + Send + Sync {
    fn fill(&self, bytes: &mut [u8]);

    fn u32(&self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    /// `digits` lower-case hex digits.
    fn hex(&self, digits: usize) -> String {
        let mut bytes = vec![0; digits.div_ceil(2)];
        self.fill(&mut bytes);
        let mut text = data_encoding::HEXLOWER.encode(&bytes);
        text.truncate(digits);
        text
    }
}

/// The operating system's generator.
#[derive(Debug)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[allow(clippy::disallowed_methods)] // the one place that asks the system
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// A reproducible generator for tests. Never for keys.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<rand::rngs::StdRng>);

impl SeededEntropy {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(rand::rngs::StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill_bytes(bytes);
    }
}
