//! CIFAR-10 and CIFAR-100 in the authors' binary files: <https://www.cs.toronto.edu/~kriz/cifar.html>.
//!
//! A record is one label (CIFAR-100: the coarse and then the fine one, which is used here) and the red, green and blue
//! planes of 32 x 32 pixels, row by row.

use std::path::{Path, PathBuf};

use image::{Rgb, RgbImage};

use super::classes::names;
use super::{Coding, FolderError, Place, Sample, Source, within};
use crate::DataError;
use crate::regular;
use crate::text::{LARGEST_LIST, read_text};

/// Height and width of an image in pixels.
pub(super) const SIDE: u32 = 32;
const PIXELS: usize = 3 * (SIDE * SIDE) as usize;

/// Maximum size of a file of records in bytes; that of CIFAR-100 has 154 MB.
const LARGEST_RECORDS: u64 = 1 << 30;

/// The files of one of the two data sets.
struct Layout {
    /// The folder that the authors' archive unpacks to.
    folder: &'static str,
    /// Class names, one per line.
    names: &'static str,
    train: &'static [&'static str],
    test: &'static [&'static str],
    /// Labels per record; the last one is used.
    labels: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        folder: "cifar-10-batches-bin",
        names: "batches.meta.txt",
        train: &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
        ],
        test: &["test_batch.bin"],
        labels: 1,
    },
    Layout {
        folder: "cifar-100-binary",
        names: "fine_label_names.txt",
        train: &["train.bin"],
        test: &["test.bin"],
        labels: 2,
    },
];

/// The data set in a folder, or in the archive's subfolder of it.
fn find(path: &Path) -> Option<(PathBuf, &'static Layout)> {
    LAYOUTS.iter().find_map(|layout| {
        let mut dirs = [path.to_owned(), path.join(layout.folder)].into_iter();
        let dir = dirs.find(|dir| dir.join(layout.train[0]).is_file())?;
        Some((dir, layout))
    })
}

/// Whether a folder contains one of the data sets.
pub(super) fn is_here(path: &Path) -> bool {
    find(path).is_some()
}

/// The images of a split: `train`, and `val` or `test`.
pub(super) fn open(path: &Path, split: &str) -> Result<Source, DataError> {
    let (dir, layout) = find(path).ok_or_else(|| DataError::NoCifar(path.to_owned()))?;
    let files = match split {
        "train" => layout.train,
        "val" | "test" => layout.test,
        _ => return Err(FolderError::MissingFolder(path.join(split)).into()),
    };
    let classes = names(&read_text(&dir.join(layout.names), LARGEST_LIST)?);
    let files: Vec<PathBuf> = files.iter().map(|file| dir.join(file)).collect();
    let mut samples = Vec::new();
    for (number, file) in (0..).zip(&files) {
        samples.extend(records(number, file, layout.labels, classes.len())?);
    }
    Ok(Source {
        files,
        coding: Coding::Planes,
        ..Source::new(dir, classes, samples)?
    })
}

/// The records of file `number`.
fn records(
    number: u32,
    file: &Path,
    labels: usize,
    classes: usize,
) -> Result<Vec<Sample>, DataError> {
    let refuse = |reason: String| DataError::records(file, reason);
    let bytes = regular::read_at_most(file, LARGEST_RECORDS)?;
    let record = labels + PIXELS;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        return Err(refuse(format!(
            "{} bytes are not a whole number of records of {record} bytes: the file is truncated, or of another data set",
            bytes.len()
        )));
    }
    let all = bytes.chunks_exact(record).enumerate();
    all.map(|(at, bytes)| {
        let label = bytes[labels - 1];
        if usize::from(label) >= classes {
            return Err(refuse(format!(
                "record {at} has label {label}, but there are names of {classes} classes"
            )));
        }
        Ok(Sample {
            path: within(file, &format!("{at:05}")),
            label: label.into(),
            place: Place::Within {
                file: number,
                offset: (at * record + labels) as u64,
                length: PIXELS as u64,
            },
        })
    })
    .collect()
}

/// An image from its planes; `None` if they are of another length.
pub(super) fn picture(planes: &[u8]) -> Option<RgbImage> {
    let ([red, green, blue], []) = planes.as_chunks::<{ PIXELS / 3 }>() else {
        return None;
    };
    Some(RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let at = (y * SIDE + x) as usize;
        Rgb([red[at], green[at], blue[at]])
    }))
}

#[cfg(test)]
mod tests;
