//! From features to the outputs of a model.

mod classify;
mod second_order;

use burn::module::Module;
use kvt_ops::Phase;

pub use classify::{Classifier, Logits};
pub(crate) use second_order::{SecondOrder, SecondOrderSize};

use crate::backbone::Features;

/// The part of a model that turns features into its outputs.
pub trait Head: Module {
    /// The outputs.
    type Output;

    /// The outputs for the features of a batch.
    fn forward(&self, features: Features, phase: Phase) -> Self::Output;
}
