//! What is done to one decoded image on the CPU, from RGB pixels to normalised numbers `[3, height, width]`.
//!
//! Each image has its own [`Key`](kvt_ops::Key): what happens to it does not depend on the images before it. What
//! mixes several images of a batch belongs on the device, not here.
//!
//! In the order of the steps: crop and resize, flips ([`Transform`]), operations of 8 bits ([`Step`]), normalisation,
//! [`RandomErasing`].

pub mod auto;
mod config;
mod crop;
pub mod dino;
mod erase;
mod jitter;
pub mod ops;
mod resize;
mod step;
mod transform;

pub use auto::{AutoAugment, AutoError};
pub use config::{AugmentConfig, CropMode, Interpolation, Preset};
pub use crop::{Crop, center_crop, random_resized_crop};
pub use erase::{EraseMode, Patch, RandomErasing};
pub use jitter::{Adjustment, ColorJitter};
pub use step::Step;
pub use transform::{AugmentError, Transform};
