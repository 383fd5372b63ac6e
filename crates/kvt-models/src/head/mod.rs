//! From features to the outputs of a model.

mod classify;
mod second_order;

pub use classify::{Classifier, Logits};
pub(crate) use second_order::{SecondOrder, SecondOrderSize};
