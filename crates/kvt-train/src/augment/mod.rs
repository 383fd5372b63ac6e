//! What is done to images, from RGB pixels to normalised numbers `[3, height, width]`.
//!
//! Each image has its own [`Key`](kvt_ops::Key): what happens to it on the CPU does not depend on the images before it.
//! What mixes several images of a batch ([`mix`]) happens on the device, from the key of the micro-batch.

mod config;
mod crop;
mod erase;
pub mod mix;
mod normalization;
mod resize;
mod transform;

pub use config::{AugmentConfig, Interpolation, Preset};
pub use crop::{Crop, center_crop, random_resized_crop};
pub use erase::{Patch, RandomErasing};
pub use mix::MixConfig;
pub use normalization::Normalization;
pub use transform::{AugmentError, Transform};
