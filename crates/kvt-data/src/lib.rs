//! From files to batches on the host: `source -> sampler -> (decode -> augment) -> loader`.
//!
//! A [`Batch`] contains plain numbers; only its upload, by the training thread, involves a device. The content and order of
//! every batch depend only on (seed, epoch), for any number of workers.
//!
//! - [`augment`]: augmentation of an image; [`shapes`]: a generated data set; [`coco`]: annotations as COCO writes them.
//! - [`schema`]: sections of a configuration, and the allowed values of their keys.
//! - [`fs`], [`regular`], [`text`]: files that are written whole, and reading of a user's files; [`escape`]: text that cannot act on
//!   what surrounds it.

pub mod augment;
mod balance;
mod batch;
mod batches_by_orientation;
mod check;
pub mod coco;
mod config;
mod decode;
mod error;
pub mod escape;
mod file;
mod fresh;
pub mod fs;
mod image_input;
mod label_map;
mod listing;
mod loader;
mod ordered;
mod pack;
mod prepare;
mod raster;
pub mod regular;
mod repeats;
mod sampler;
pub mod schema;
pub mod shapes;
mod source;
mod state;
pub mod text;
mod upload;

pub use balance::{Balance, balanced_order};
pub use batch::{Batch, Image, View};
pub use batches_by_orientation::{oriented_batch_count, oriented_order};
pub use check::{
    Check, CocoCheck, Duplicate, Imbalance, LabelCounts, MaskCheck, SplitCheck, check_coco,
    check_folder, check_labels, check_masks,
};
pub use config::{ClassNames, DataConfig, DataKind, DecodeMode, OnError, Workers, ZeroMeans};
pub use decode::{ColorKind, DecodeError, Decoded, decode, decode_bytes, decode_mask};
pub use error::DataError;
pub use file::ImageLimits;
pub use fresh::without_training;
pub use label_map::{IGNORED, LabelMap};
pub use listing::{Files, NotRead, OtherFormats, Unlisted, image_files};
pub use loader::{Loader, LoaderConfig, LoaderError, Purpose, Skipped};
pub use pack::{Packed, pack, splits_to_pack};
pub use prepare::{Example, Prepare, Views, view_key};
pub use raster::Raster;
pub use repeats::EpochOrder;
pub use sampler::{batch_count, epoch_order, image_key};
pub use source::{
    ClassError, ClassOrder, FolderError, ImageObjects, PairError, ParquetFault, Picture, Sample,
    ShardFault, Source, Split, SplitError, TEST, TRAIN, Unpaired, VAL, has_splits, is_guarded,
    is_split, is_whole, label_tables, open, open_part, open_split, split_name, test_split,
    unused_splits, unused_splits_of, whole_kind,
};
pub use state::{DataState, listing_of};
pub use upload::DeviceBatch;
