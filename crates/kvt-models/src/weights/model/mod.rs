//! Between weights and models.

mod identify;
mod layout;
mod load;
mod save;

pub use identify::{identify, nearest};
pub use layout::{Recognised, recognise};
pub use load::LoadOptions;
pub(crate) use save::on_host;
