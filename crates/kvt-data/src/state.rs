//! The identity of the images of a run, so that it is not resumed with different ones.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Sample, Source};

/// The identity of the images of a run: the order of an epoch is only meaningful for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataState {
    /// Number of training images.
    pub train: usize,
    /// Number of validation images.
    pub val: usize,
    /// BLAKE3 of their relative paths and labels in order, or the file of their annotations, truncated to 64 bits.
    pub listing: u64,
    /// The same for the sizes of their files; `None` in checkpoints of older versions and with `data.check_sizes = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<u64>,
}

impl DataState {
    /// For the images of two splits; with the sizes of their files if `check_sizes`.
    pub fn of(train: &Source, val: &Source, check_sizes: bool) -> Self {
        let folders = [train, val];
        Self {
            train: train.samples.len(),
            val: val.samples.len(),
            listing: listing(&folders),
            sizes: check_sizes.then(|| sizes(folders)),
        }
    }

    /// Whether both are for the same images, as far as both have the information.
    pub fn agrees(&self, other: &Self) -> bool {
        let known = |state: &Self| (state.train, state.val, state.listing);
        let sizes = self.sizes.zip(other.sizes);
        known(self) == known(other) && sizes.is_none_or(|(a, b)| a == b)
    }
}

/// A hash of the images of one source: their paths, relative to it, and their labels, in order.
pub fn listing_of(source: &Source) -> u64 {
    listing(&[source])
}

/// A hash of the paths, relative to the folders, and labels, so that the folders can be moved.
fn listing(folders: &[&Source]) -> u64 {
    let mut hash = blake3::Hasher::new();
    for folder in folders {
        for sample in &folder.samples {
            hash.update(folder.relative(sample).as_os_str().as_encoded_bytes());
            hash.update(b"\0");
            hash.update(&sample.label.to_le_bytes());
        }
        if folder.has_label_sets() {
            for index in (0..).take(folder.samples.len()) {
                for label in folder.labels(index) {
                    hash.update(&label.to_le_bytes());
                }
                hash.update(b"\0");
            }
        }
        for mask in folder.mask_names() {
            hash.update(mask.as_os_str().as_encoded_bytes());
            hash.update(b"\0");
        }
        if let Some(coco) = folder.coco() {
            hash.update(&coco.hash);
        }
    }
    short(&hash)
}

/// A hash of the file sizes. On many threads, since each query of a remote disk is slow.
fn sizes(folders: [&Source; 2]) -> u64 {
    let mut hash = blake3::Hasher::new();
    for folder in folders {
        let size = |sample: &Sample| folder.stored_bytes(sample);
        let mut sizes: Vec<u64> = folder.samples.par_iter().map(size).collect();
        sizes.par_extend(folder.stored_masks());
        for size in sizes {
            hash.update(&size.to_le_bytes());
        }
    }
    short(&hash)
}

/// The first 64 bits of a hash.
fn short(hash: &blake3::Hasher) -> u64 {
    let mut bytes = [0; 8];
    hash.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
