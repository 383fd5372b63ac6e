//! Between weights and models: [`recognise`] tells the family and layout of weights, [`identify`] the named models
//! that they fit, [`Model::load`](crate::Model::load) loads them into a model, and `StateDict::from_model` reads them
//! from one.

mod identify;
mod layout;
mod load;
mod save;

pub use identify::identify;
pub use layout::{Layout, Recognised, recognise};
pub use load::LoadOptions;
