//! How many keys a query keeps.

use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// How many of its keys a query keeps. Resolved against the number of keys when the attention
/// runs, so that one setting serves every image size and every stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbors {
    /// All keys: dense attention.
    All,
    /// A fixed number, clamped to the number of keys.
    Count(NonZeroUsize),
    /// A share of the keys in (0, 1]: `floor(share * keys)`, at least 1.
    Fraction(f64),
}

/// A number of neighbours that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NeighborsError {
    /// A count of zero.
    #[error("neighbors = 0 keeps no key: use a count of at least 1, or a share in (0, 1]")]
    Zero,
    /// A share outside (0, 1].
    #[error("neighbors = {0} is no share of the keys: use a number in (0, 1], or a whole count")]
    Share(f64),
}

impl Neighbors {
    /// A fixed number of keys.
    ///
    /// # Errors
    /// If the count is zero.
    pub fn count(count: usize) -> Result<Self, NeighborsError> {
        NonZeroUsize::new(count)
            .map(Self::Count)
            .ok_or(NeighborsError::Zero)
    }

    /// A share of the keys.
    ///
    /// # Errors
    /// If the share is not in (0, 1].
    pub fn fraction(share: f64) -> Result<Self, NeighborsError> {
        if share > 0.0 && share <= 1.0 {
            Ok(Self::Fraction(share))
        } else {
            Err(NeighborsError::Share(share))
        }
    }

    /// The number of keys kept out of `keys`: in `[1, keys]`, or 0 if there is no key at all.
    pub fn resolve(self, keys: usize) -> usize {
        let wanted = match self {
            Self::All => keys,
            Self::Count(count) => count.get(),
            // Truncation is the definition: floor(share * keys).
            Self::Fraction(share) => (share * keys as f64).floor() as usize,
        };
        wanted.max(1).min(keys)
    }
}

impl fmt::Display for Neighbors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Fraction(share) => write!(f, "{share} of the keys"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn resolution_by_hand() {
        // (setting, keys, k): DeiT at 224 and 384 px, DINO's local crops, Swin windows.
        for (neighbors, keys, k) in [
            (Neighbors::All, 197, 197),
            (Neighbors::count(100).unwrap(), 197, 100),
            (Neighbors::count(100).unwrap(), 577, 100),
            (Neighbors::count(100).unwrap(), 37, 37),
            (Neighbors::fraction(0.5).unwrap(), 197, 98),
            (Neighbors::fraction(0.5).unwrap(), 49, 24),
            (Neighbors::fraction(1.0).unwrap(), 49, 49),
            (Neighbors::fraction(0.001).unwrap(), 49, 1),
            (Neighbors::count(1).unwrap(), 1, 1),
            (Neighbors::All, 0, 0),
        ] {
            assert_eq!(neighbors.resolve(keys), k, "{neighbors} of {keys}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Neighbors::count(0), Err(NeighborsError::Zero));
        for share in [0.0, -0.5, 1.0001, f64::INFINITY] {
            assert_eq!(
                Neighbors::fraction(share),
                Err(NeighborsError::Share(share))
            );
        }
        assert!(Neighbors::fraction(f64::NAN).is_err());
    }
}
