//! What others have published, by name: weights, and data sets of photos. They are looked for on this machine and, with the feature
//! `fetch`, downloaded.

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
mod published;
mod sum;
mod weights;

pub use self::data::{Dataset, Fetched};
pub use self::error::FetchError;
pub(crate) use self::error::instead;
pub use self::listen::{Listener, listen};
pub(crate) use self::weights::similar;
pub use self::weights::{Published, locate};
