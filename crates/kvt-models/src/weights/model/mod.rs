//! Between weights and models.

mod channels;
mod identify;
mod load;
mod save;
mod weight_names;

pub use identify::{identify, nearest};
pub use load::LoadOptions;
pub(crate) use load::{deferred, put, widened};
pub(crate) use save::on_host;
pub use weight_names::{Recognised, recognise};
