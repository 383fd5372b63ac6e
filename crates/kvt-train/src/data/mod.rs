//! From files to batches on the host: `source -> sampler -> (decode -> augment) -> loader`.
//!
//! Nothing here knows a device: a [`Batch`] is plain numbers, uploaded by the thread that trains. The content and order of
//! every batch follow from (seed, epoch) alone, whatever the number of workers.

mod check;
mod config;
mod decode;
mod error;
mod file;
mod listing;
mod loader;
mod ordered;
mod sampler;
pub mod shapes;
mod source;

pub use check::{Check, Duplicate, SplitCheck, Unreadable, check};
pub use config::{DataConfig, DataKind, OnError, Workers};
pub use decode::{ColorKind, DecodeError, Decoded, decode, decode_bytes};
pub use error::DataError;
pub use file::ImageLimits;
pub use listing::{NotRead, OtherFormats, Unlisted};
pub use loader::{Batch, Loader, LoaderConfig, Purpose, Skipped};
pub use sampler::{batch_count, epoch_order};
pub use source::{ClassOrder, ImageFolder, Sample};
