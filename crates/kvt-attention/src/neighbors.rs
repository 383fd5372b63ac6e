//! How many keys a query keeps.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many of its keys a query keeps. Resolved against the number of keys when the attention
/// runs, so that one setting serves every image size and every stage.
///
/// In a configuration an integer is a count and a float a share; all keys are the share 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Neighbors {
    /// All keys: dense attention.
    All,
    /// A fixed number, clamped to the number of keys.
    Count(NonZeroUsize),
    /// A share of the keys in (0, 1]: `floor(share * keys)`, at least 1.
    Fraction(f64),
}

/// An invalid number of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NeighborsError {
    /// A count of zero.
    #[error("neighbors = 0 keeps no key: use a count of at least 1, or a share in (0, 1]")]
    Zero,
    /// A share outside (0, 1].
    #[error("neighbors = {0} is not a share of the keys: use a number in (0, 1], or a whole count")]
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

impl Serialize for Neighbors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_f64(1.0),
            Self::Count(count) => count.serialize(serializer),
            Self::Fraction(share) => serializer.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for Neighbors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Neighbors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count of at least 1, or a share of the keys in (0, 1]")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Neighbors, E> {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                Neighbors::count(count).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Neighbors, E> {
                self.visit_u64(u64::try_from(count).unwrap_or(0))
            }

            fn visit_f64<E: Error>(self, share: f64) -> Result<Neighbors, E> {
                Neighbors::fraction(share).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl JsonSchema for Neighbors {
    fn schema_name() -> Cow<'static, str> {
        "Neighbors".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "title": "a count", "type": "integer", "minimum": 1 },
                {
                    "title": "a share of the keys",
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 1,
                },
            ]
        })
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
            assert_eq!(neighbors.resolve(keys), k, "{neighbors:?} of {keys}");
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

    /// As TOML writes them: the type of the number decides.
    #[test]
    fn an_integer_is_a_count_and_a_float_a_share() {
        for (text, neighbors) in [
            ("1", Neighbors::count(1).unwrap()),
            ("100", Neighbors::count(100).unwrap()),
            ("1.0", Neighbors::fraction(1.0).unwrap()),
            ("0.5", Neighbors::fraction(0.5).unwrap()),
        ] {
            assert_eq!(serde_json::from_str::<Neighbors>(text).unwrap(), neighbors);
            assert_eq!(serde_json::to_string(&neighbors).unwrap(), text);
        }
        assert_eq!(serde_json::to_string(&Neighbors::All).unwrap(), "1.0");
        for (text, message) in [
            ("0", "keeps no key"),
            ("-3", "keeps no key"),
            ("1.5", "not a share"),
            ("\"half\"", "a count of at least 1, or a share"),
        ] {
            let error = serde_json::from_str::<Neighbors>(text).unwrap_err();
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
    }
}
