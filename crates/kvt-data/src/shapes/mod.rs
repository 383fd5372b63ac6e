//! The generated data set: one geometric shape per image, to be distinguished from clutter and seen behind occluders.
//!
//! It exists so that a first run needs no download, and so that a small model sees images in which most patches are
//! irrelevant. The label is only the shape: colours, position, size, rotation, background, clutter and occluders are drawn
//! independently of it. Every image has its own [`Key`](kvt_ops::Key), named by (seed, split, class, index), so a larger data
//! set begins with the images of the smaller one. Only exactly rounded arithmetic is used (no sine, no logarithm), so the
//! pixels are the same on every platform.

mod canvas;
mod figure;
mod folder;
mod scene;

pub use figure::Figure;
pub use folder::{ShapesConfig, Split, Summary, ensure, generate};
pub use scene::render;
