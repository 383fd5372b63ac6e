//! Weights outside a model: timm's names, PyTorch's layout, and their files.
//!
//! [`read()`] and [`write()`] move a [`StateDict`] from and to files. [`recognise`] finds the family and layout of weights,
//! [`identify`] the named models that they fit, [`Model::load`](crate::Model::load) loads them into a model, and
//! [`StateDict::from_model`] reads them from one.

mod error;
mod file;
pub(crate) mod interpolate;
mod model;
pub(crate) mod pos_embed;
mod report;
mod state_dict;

pub use crate::family::naming::Layout;
pub use error::WeightsError;
pub use file::{ENDINGS, bytes, is_of_weights, metadata, read, read_as_stored, write};
pub use model::{LoadOptions, Recognised, identify, nearest, recognise};
pub(crate) use model::{deferred, on_host, put, widened};
pub use report::{LoadReport, LoadRow, Misfit, Outcome};
pub use state_dict::StateDict;
pub(crate) use state_dict::not_finite;
