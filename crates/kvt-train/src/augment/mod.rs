//! What is done to one decoded image on the CPU, from RGB pixels to normalised numbers `[3, height, width]`.
//!
//! Each image has its own [`Key`](kvt_ops::Key): what happens to it does not depend on the images before it. What
//! mixes several images of a batch belongs on the device, not here.

mod config;
mod crop;
mod normalize;
mod part;
mod resize;
mod transform;

pub use config::{AugmentConfig, Interpolation, Preset};
pub use crop::{Crop, center_crop, random_resized_crop};
pub use part::{Look, Part};
pub use transform::{AugmentError, Transform};
