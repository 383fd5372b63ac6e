//! The random numbers of mechanisms: always drawn from keys, never from the generator of a device.

use kvt_ops::{Key, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a mechanism redraws its random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Redraw {
    /// At every step of training, from the key of the step. Evaluation always uses the same numbers.
    #[default]
    Step,
    /// Never: training uses the numbers of evaluation.
    Never,
}

/// The random numbers of one attention layer.
///
/// No draws are saved: the numbers of evaluation follow from the seed of the configuration and the place in the
/// model, so a loaded model has the same numbers, whatever the batch and the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    fixed: Key,
    redraw: Redraw,
}

impl Draws {
    /// `place` is the initialiser's path: different places of the model have different numbers.
    pub(crate) fn new(seed: u64, place: Key, redraw: Redraw) -> Self {
        Self {
            fixed: Key::new(seed).named("attention").child(place.value()),
            redraw,
        }
    }

    /// The key for one purpose in one pass.
    pub(crate) fn key(&self, phase: Phase, purpose: &str) -> Key {
        match (phase, self.redraw) {
            (Phase::Train(key), Redraw::Step) => key.named("mixer").named(purpose),
            _ => self.fixed.named(purpose),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_draws_by_step_and_evaluation_by_seed_and_place() {
        let place = Key::new(3);
        let step = Draws::new(0, place, Redraw::Step);
        let (first, second) = (Phase::Train(Key::new(1)), Phase::Train(Key::new(2)));
        assert_ne!(step.key(first, "a"), step.key(second, "a"));
        assert_ne!(step.key(first, "a"), step.key(first, "b"));
        assert_eq!(step.key(Phase::Eval, "a"), step.key(Phase::Eval, "a"));

        let never = Draws::new(0, place, Redraw::Never);
        assert_eq!(never.key(first, "a"), step.key(Phase::Eval, "a"));

        let others = [
            Draws::new(1, place, Redraw::Never),
            Draws::new(0, Key::new(4), Redraw::Never),
        ];
        for other in others {
            assert_ne!(other.key(first, "a"), never.key(first, "a"));
        }
    }
}
