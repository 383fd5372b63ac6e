//! A position in a run: the argument of schedules and random draws.

use kvt_ops::Key;
use serde::{Deserialize, Serialize};

/// A position between two micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Number of its micro-batches that have been trained on.
    pub batch: usize,
    /// Number of optimizer updates since the start.
    pub step: u64,
}

impl Position {
    /// The position of the micro-batch that comes `batches` later in the same update.
    #[must_use]
    pub fn later(self, batches: usize) -> Self {
        Self {
            batch: self.batch + batches,
            ..self
        }
    }

    /// The key of all random draws in a micro-batch's pass through the model: drop path, dropout, mixing of images.
    ///
    /// This is the only place where it is created. [`Self::batch`] counts the micro-batches of the epoch over the whole
    /// run. With several processes, it must be the global number, not that of the process, so that any number of
    /// processes draws the same.
    pub fn forward_key(self, seed: u64) -> Key {
        Key::new(seed)
            .named("forward")
            .child(self.epoch.into())
            .child(self.batch as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change here changes the draws of every seeded run.
    #[test]
    fn each_micro_batch_has_its_own_key() {
        let at = Position {
            epoch: 3,
            batch: 4,
            step: 9,
        };
        let key = |batch| Key::new(7).named("forward").child(3).child(batch);
        assert_eq!(at.forward_key(7), key(4));
        assert_eq!(at.later(2).forward_key(7), key(6));
        assert_eq!((at.later(2).epoch, at.later(2).step), (3, 9));
    }
}
