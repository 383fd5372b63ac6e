//! Tasks: what a network is trained for, and how it is judged.
//!
//! [`Trainer`](crate::engine::Trainer) knows epochs, updates and checkpoints. A [`Task`] knows what a batch means: its
//! loss, what it remembers between batches, and its metrics. [`Classify`] is the first. A task is a file here and the
//! place where [`Session`](crate::engine::Session) makes its [`TrainState`](crate::engine::TrainState).

mod classify;
mod eval_data;
mod evaluate;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_ops::Phase;

use crate::data::{DeviceBatch, Sample};
use crate::error::TrainError;
use crate::recipe::{Gradients, Network, Position};
use crate::run::Metrics;

pub use classify::Classify;
pub use eval_data::EvalData;
pub use evaluate::{Evaluation, evaluate, predict};

/// What is trained, and how it is judged.
///
/// In an update the trainer calls, in this order: [`begin`](Self::begin), [`loss`](Self::loss) for each micro-batch,
/// [`before_clip`](Self::before_clip), [`after_update`](Self::after_update).
pub trait Task {
    /// What is trained: a classifier, or the student of self-supervised training, backbone and head.
    type Network: Network;
    /// What is learned from an image: its class, or `()` where labels are not used.
    type Target: Send + 'static;

    /// The metric by which the best checkpoint is chosen.
    const BEST: BestBy;

    /// The target of a training image.
    fn target(sample: &Sample) -> Self::Target;

    /// The mean loss over the images of a micro-batch, `[1]`, with its graph.
    ///
    /// `phase` carries the key of all that is drawn for this micro-batch. What mixes images (mixup, CutMix) belongs at the
    /// beginning: the batch is on the device, and its targets may become soft ones. The task's own state may change: a
    /// centre, a queue. It is kept even if the update then fails, which ends the run without saving; only where a later
    /// micro-batch cannot be read, [`undo`](Self::undo) puts it back.
    fn loss(
        &mut self,
        network: &Self::Network,
        batch: DeviceBatch<Self::Target>,
        at: Position,
        phase: Phase,
    ) -> Tensor<1>;

    /// Notes what [`loss`](Self::loss) changes of the task's own state, before the first micro-batch of an update.
    fn begin(&mut self) {}

    /// Puts back what [`begin`](Self::begin) noted: an image cannot be read, so that the update is not made.
    fn undo(&mut self) {}

    /// Changes the complete gradients of an update before their norm is taken and they are clipped, such as leaving out a
    /// layer in the first epoch.
    fn before_clip(&self, _gradients: &mut Gradients, _network: &Self::Network, _at: Position) {}

    /// Follows an update with the task's own state, such as the average that is a teacher. `at` is the place before the
    /// update.
    fn after_update(&mut self, _network: &Self::Network, _at: Position) {}

    /// The task's own state, as files of a checkpoint: a name without ending, and its tensors.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        Ok(Vec::new())
    }

    /// Puts back what [`state`](Self::state) gave; `read` gives the tensors of a name.
    ///
    /// # Errors
    /// What `read` returns, or if the tensors do not fit.
    fn load_state(
        &mut self,
        _read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        Ok(())
    }

    /// Judges a network, which has no autodiff: the trained one, or the average of its weights.
    ///
    /// # Errors
    /// If a batch cannot be loaded, no image can be read, or the device fails.
    fn evaluate(
        &self,
        network: &Self::Network,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError>;
}

/// What an evaluation came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The numbers, by name.
    pub metrics: Metrics,
    /// Images evaluated.
    pub images: usize,
}

/// How evaluations are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestBy {
    /// The metric's name.
    pub metric: &'static str,
    /// Whether more of it is better.
    pub higher: bool,
}

impl BestBy {
    /// Whether `new` is better than `old`. An equal value is not, and NaN never is.
    pub fn improves(self, new: f64, old: f64) -> bool {
        if self.higher { new > old } else { new < old }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_higher_or_lower() {
        let accuracy = Classify::BEST;
        let loss = BestBy {
            metric: Metrics::LOSS,
            higher: false,
        };
        assert!(accuracy.improves(2.0, 1.0) && loss.improves(1.0, 2.0));
        for (new, old) in [(1.0, 1.0), (f64::NAN, 1.0)] {
            assert!(!accuracy.improves(new, old) && !loss.improves(new, old));
        }
        assert!(!accuracy.improves(1.0, 2.0) && !loss.improves(2.0, 1.0));
    }
}
