//! The generated data set: one geometric shape per image, to be distinguished from clutter and seen behind occluders. Or, for dense
//! prediction, scenes of several shapes with their masks and annotations ([`Layout::Dense`]).
//!
//! It exists so that a first run needs no download, and so that a small model sees images in which most patches are
//! irrelevant. The label is only the shape: colours, position, size, rotation, background, clutter and occluders are drawn
//! independently of it. Every image has its own [`Key`](kvt_ops::Key), named by (seed, split, class, index), a scene by (seed, split, index), so a larger data
//! set begins with the images of the smaller one. Only exactly rounded arithmetic is used (no sine, no logarithm), so the
//! pixels are the same on every platform.

mod canvas;
mod config;
mod dense;
mod error;
mod figure;
mod folder;
mod scene;

pub use config::{Layout, ShapesConfig};
pub(crate) use dense::CLASSES;
pub use error::ShapesError;
pub use figure::Figure;
pub use folder::{Summary, ensure};
pub use scene::render;
