//! Augmentation of images, from RGB pixels to normalised numbers `[3, height, width]`.
//!
//! Each image has its own [`Key`](kvt_ops::Key): its augmentation on the CPU does not depend on the images before it.
//! Mixing of several images of a batch (`recipe::mix`) happens on the device, with the key of the micro-batch.
//!
//! The order of the steps: crop and resize, flips ([`Transform`]), 8-bit operations ([`Step`]), normalisation,
//! [random erasing](AugmentConfig::patches).

pub mod auto;
mod config;
mod crop;
mod detect;
mod erase;
mod jitter;
mod joint;
mod normalization;
mod normalize;
pub mod ops;
mod part;
mod resize;
mod step;
mod transform;

pub use auto::{AutoAugment, AutoError};
pub use config::{AugmentConfig, CropMode, Interpolation, Preset};
pub use crop::{Crop, center_crop, random_resized_crop};
pub use detect::{MultiscaleConfig, Objects, PrepareObjects};
pub use erase::{EraseMode, Patch};
pub use jitter::ColorJitter;
pub use joint::{DenseConfig, JointEval, JointTrain};
pub use normalization::Normalization;
pub use part::{Look, Part};
pub use step::Step;
pub use transform::{AugmentError, Transform};
