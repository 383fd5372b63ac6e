//! Weights outside a model: timm's names, PyTorch's layout, and their files.
//!
//! [`read()`] and [`write()`] move a [`StateDict`] from and to files. [`checkpoint`](crate::checkpoint) moves
//! it from and to models.

mod error;
mod file;
pub(crate) mod interpolate;
pub(crate) mod pos_embed;
mod report;
mod state_dict;

pub use error::WeightsError;
pub use file::{bytes, is_of_weights, metadata, read, read_as_stored, write};
pub use report::{LoadReport, LoadRow, Misfit, Outcome};
pub use state_dict::StateDict;
pub(crate) use state_dict::not_finite;
