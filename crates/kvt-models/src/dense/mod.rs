//! Dense prediction: a class for every pixel.

pub mod pyramid;
mod state;
pub mod upernet;
