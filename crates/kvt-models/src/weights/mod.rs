//! Weights outside a model: timm's names, PyTorch's layout, and the files they come in.
//!
//! [`read()`] and [`write()`] move a [`StateDict`] from and to files, [`StateDict::from_model`] and
//! [`Model::load`](crate::Model::load) from and to models.

mod error;
mod file;
pub(crate) mod interpolate;
mod layout;
mod load;
pub(crate) mod pos_embed;
mod state_dict;

pub use error::WeightsError;
pub use file::{read, read_as_stored, write};
pub use layout::{Layout, Recognised, recognise};
pub use load::{LoadOptions, LoadReport, LoadRow, Outcome};
pub use state_dict::StateDict;
