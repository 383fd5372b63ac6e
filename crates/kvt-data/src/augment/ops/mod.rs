//! Operations on 8-bit RGB images with Pillow's arithmetic: integers where Pillow uses integers, otherwise `f32` or `f64`, in
//! Pillow's order of operations, so that the result is bit-identical (checked against Pillow 13 on generated images).
//!
//! These functions are deterministic: their arguments are numbers. They change an image in place, or create one new image.

mod affine;
mod blur;
mod color;
mod enhance;
mod point;

pub use affine::{Sampling, affine, rotate};
pub use blur::gaussian_blur;
pub(super) use color::in_sector;
pub use color::{grayscale, hue, luma};
pub use enhance::{blend, brightness, color, contrast, sharpness};
pub(super) use point::map_all;
pub use point::{autocontrast, equalize, invert, posterize, solarize, solarize_add};

#[cfg(test)]
mod tests;
