//! Between weights and models.

mod channels;
mod identify;
mod layout;
mod load;
mod save;

pub use identify::identify;
pub use layout::{Recognised, recognise};
pub use load::LoadOptions;
pub(crate) use save::on_host;
