//! Operations on 8-bit RGB images with Pillow's arithmetic: integers where Pillow has integers, else `f32` or `f64` as there,
//! in its order of operations, so that the result is Pillow's to the bit (checked against Pillow 13 on generated images).
//!
//! Nothing is drawn here: arguments are numbers. Operations change an image in place, or make one new image.

mod affine;
mod blur;
mod color;
mod enhance;
mod point;

pub use affine::{Resample, Sampling, affine, rotate, shear_x, shear_y, translate_x, translate_y};
pub use blur::gaussian_blur;
pub use color::{grayscale, hue, luma};
pub use enhance::{blend, brightness, color, contrast, sharpness};
pub use point::{autocontrast, equalize, invert, posterize, solarize, solarize_add};

#[cfg(test)]
mod tests;
