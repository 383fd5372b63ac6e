//! Between weights and models: [`recognise`] tells whose weights they are, [`Model::load`](crate::Model::load)
//! takes them into a model, and `StateDict::from_model` reads them from it.

mod layout;
mod load;
mod save;

pub use layout::{Layout, Recognised, recognise};
pub use load::LoadOptions;
