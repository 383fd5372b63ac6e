//! Networks that predict something for every pixel.

pub mod boxes;
mod cost;
pub mod mask_rcnn;
mod network;
mod numbered;
mod pyramid;
pub mod state;
pub mod upernet;
mod weights;

pub use crate::layers::WindowPadding;
pub use network::{CLASSIFIERS, OnPyramid};
pub use pyramid::{DenseKind, Pyramid};
pub use weights::{DenseWeights, read_dense};
