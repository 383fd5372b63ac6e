//! Published weights and data sets of photos, by name. kvt looks for them on this machine and, with the feature `fetch`, downloads them.

mod cache;
mod data;
#[cfg(feature = "fetch")]
mod download;
#[cfg(not(feature = "fetch"))]
#[path = "without.rs"]
mod download;
mod error;
mod hub;
mod listen;
mod sum;
mod weights;

pub use self::data::{Dataset, Fetched};
pub use self::error::FetchError;
pub use self::listen::{Listener, listen};
pub(crate) use self::weights::instead;
pub use self::weights::{Published, locate};
