//! Between weights and models: [`recognise`] tells whose weights they are, [`identify`] which named models they fit,
//! [`Model::load`](crate::Model::load)
//! takes them into a model, and `StateDict::from_model` reads them from it.

mod identify;
mod layout;
mod load;
mod save;

pub use identify::identify;
pub use layout::{Layout, Recognised, recognise};
pub use load::LoadOptions;
