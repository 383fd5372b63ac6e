//! Networks that predict something for every pixel.

mod pyramid;

pub use crate::layers::WindowPadding;
pub use pyramid::{DenseKind, Pyramid};
