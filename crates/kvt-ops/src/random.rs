//! Keyed randomness: every draw has a name, and draws share no state.
//!
//! A key is a 64-bit hash of the path that led to it: `Key::new(seed).named("augment").child(epoch)`.
//! All random numbers come from generators with separate keys, so they depend neither on the order of calls, nor on
//! threads, nor on what ran before a resume.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A point in the tree of random streams.
///
/// The mixing function is the finaliser of splitmix64, names are hashed with 64-bit FNV-1a, and the generator is
/// ChaCha8: all three are fixed, so a key gives the same numbers on every platform and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The root of all streams of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6b76_7400_6b65_7973))
    }

    /// The stream of one numbered part: an epoch, a sample, a layer.
    pub fn child(self, part: u64) -> Self {
        Self(mix(self.0.rotate_left(17) ^ mix(part)))
    }

    /// The stream of one named part: a purpose.
    pub fn named(self, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.child(hash ^ 0x5bd1_e995_0000_0000)
    }

    /// The generator of this stream, from its beginning.
    pub fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }

    /// The key as a number, for another generator.
    pub fn value(self) -> u64 {
        self.0
    }
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Whether a forward pass trains, and if so, the key for its dropout and drop path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Inference: no dropout, no drop path.
    Eval,
    /// Training, with the key of this step.
    Train(Key),
}

impl Phase {
    /// The phase of a numbered part of the model.
    pub fn child(self, part: u64) -> Self {
        match self {
            Self::Eval => Self::Eval,
            Self::Train(key) => Self::Train(key.child(part)),
        }
    }

    /// The phase of a named part of the model.
    pub fn named(self, name: &str) -> Self {
        match self {
            Self::Eval => Self::Eval,
            Self::Train(key) => Self::Train(key.named(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::HashSet;

    #[test]
    fn a_key_is_the_same_everywhere() {
        // Computed with a Python implementation: a change here changes every seeded run.
        assert_eq!(Key::new(0).value(), 0xcaf7_b423_21ac_cd0c);
        assert_eq!(
            Key::new(1).named("augment").child(3).value(),
            0x94f1_0ec6_ab00_c0c5
        );
    }

    #[test]
    fn paths_do_not_collide() {
        let mut seen = HashSet::new();
        for seed in 0..4 {
            for name in ["a", "b", "ab", "ba"] {
                for part in 0..64 {
                    assert!(seen.insert(Key::new(seed).named(name).child(part).value()));
                    assert!(seen.insert(Key::new(seed).child(part).named(name).value()));
                }
            }
        }
    }

    /// Otherwise all layers would drop the same values.
    #[test]
    fn every_part_of_a_model_has_its_own_phase() {
        let train = Phase::Train(Key::new(7));
        let parts = [
            train,
            train.child(0),
            train.child(1),
            train.named("a"),
            train.named("b"),
        ];
        for (i, part) in parts.iter().enumerate() {
            assert!(!parts[..i].contains(part), "{i}");
        }
        assert_eq!(Phase::Eval.child(1), Phase::Eval);
        assert_eq!(Phase::Eval.named("a"), Phase::Eval);
    }

    #[test]
    fn a_generator_starts_anew() {
        let key = Key::new(7).child(1);
        assert_eq!(key.rng().next_u64(), key.rng().next_u64());
        assert_ne!(key.rng().next_u64(), key.child(0).rng().next_u64());
    }
}
