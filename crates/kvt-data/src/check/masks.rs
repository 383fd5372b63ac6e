//! `kvt data check` of images with masks: reads every pair once and reports what is wrong with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;

use super::{Duplicate, Unreadable};
use crate::source::{Unpaired, mask_survey};
use crate::{DataConfig, DataError, IGNORED, ImageLimits, OtherFormats, Sample, Source, Unlisted};

/// One split of images with masks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskCheck {
    /// The split's name, as the configuration has it.
    pub name: String,
    /// Number of images with a mask.
    pub images: usize,
    /// Pixels of each class, in order, with its name.
    pub classes: Vec<(String, u64)>,
    /// Pixels without a class.
    pub ignored: u64,
    /// Pairs of which one file cannot be read, or that do not fit together.
    pub unreadable: Vec<Unreadable>,
    /// Images without a mask, masks without an image.
    pub unpaired: Unpaired,
    /// Links that are dead or circular, and folders that cannot be listed.
    pub unlisted: Vec<Unlisted>,
    /// Files in image formats that are not supported.
    pub others: OtherFormats,
    /// Smallest and largest (width, height) by area, in pixels; `None` if no image is readable.
    pub sizes: Option<((u32, u32), (u32, u32))>,
}

/// The findings of [`check_masks`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskChecks {
    /// The splits for training and validation.
    pub splits: Vec<MaskCheck>,
    /// Images with the same content in both.
    pub duplicates: Vec<Duplicate>,
}

impl MaskChecks {
    /// Whether training can work: everything is readable and has its partner, and each split has two classes. A class without
    /// pixels is possible.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.splits.iter().all(|split| {
            let there = split.classes.iter().filter(|(_, pixels)| *pixels > 0);
            split.unreadable.is_empty()
                && split.unpaired.count() == 0
                && split.unlisted.is_empty()
                && there.count() > 1
        })
    }
}

/// What a pair has.
struct Pair {
    size: (u32, u32),
    /// Pixels by label.
    pixels: Vec<u64>,
}

/// Reads every image with its mask of both splits of a configuration, on all cores.
///
/// # Errors
///
/// If a folder or a list is missing. Bad pairs are part of the result, not an error.
pub fn check_masks(data: &DataConfig, limits: ImageLimits) -> Result<MaskChecks, DataError> {
    let data = &*data.as_read();
    let mut contents: BTreeMap<[u8; 32], Vec<(usize, PathBuf)>> = BTreeMap::new();
    let mut splits = Vec::new();
    for (number, name) in [&data.train, &data.val].into_iter().enumerate() {
        let (survey, unpaired) = mask_survey(data, name)?;
        let source = &survey.source;
        let seen: Vec<_> = (0..source.samples.len())
            .into_par_iter()
            .map(|index| look(source, index, limits))
            .collect();
        let mut check = MaskCheck {
            name: name.clone(),
            images: source.samples.len(),
            classes: source
                .classes
                .iter()
                .map(|class| (class.clone(), 0))
                .collect(),
            ignored: 0,
            unreadable: Vec::new(),
            unpaired,
            unlisted: survey.unlisted.clone(),
            others: source.others.clone(),
            sizes: None,
        };
        for (Sample { path, .. }, (hash, pair)) in source.samples.iter().zip(seen) {
            if let Some(hash) = hash {
                let same = contents.entry(hash).or_default();
                same.push((number, path.clone()));
            }
            match pair {
                Ok(pair) => check.count(&pair),
                Err(reason) => check.unreadable.push(Unreadable {
                    path: path.clone(),
                    reason,
                }),
            }
        }
        splits.push(check);
    }
    let in_both = contents.into_values().filter(|same| {
        let first = same.first().map(|(split, _)| *split);
        same.iter().any(|(split, _)| Some(*split) != first)
    });
    let duplicates = in_both.map(|same| Duplicate {
        paths: same.into_iter().map(|(_, path)| path).collect(),
    });
    Ok(MaskChecks {
        duplicates: duplicates.collect(),
        splits,
    })
}

/// The hash of an image's file, if it can be read, and the pair.
fn look(
    source: &Source,
    index: usize,
    limits: ImageLimits,
) -> (Option<[u8; 32]>, Result<Pair, String>) {
    let bytes = source
        .samples
        .get(index)
        .map(|sample| source.bytes(sample, limits));
    let hash = bytes
        .and_then(Result::ok)
        .map(|bytes| *blake3::hash(&bytes).as_bytes());
    // The loader's indices have 32 bits.
    let number = u32::try_from(index).unwrap_or(u32::MAX);
    let pair = source.pair(number, limits).map(|(image, map)| {
        let mut pixels = vec![0; usize::from(IGNORED) + 1];
        for label in map.labels {
            if let Some(count) = pixels.get_mut(usize::from(label)) {
                *count += 1;
            }
        }
        Pair {
            size: image.dimensions(),
            pixels,
        }
    });
    (hash, pair.map_err(|error| error.reason))
}

impl MaskCheck {
    fn count(&mut self, pair: &Pair) {
        let area = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
        let size = pair.size;
        self.sizes = Some(self.sizes.map_or((size, size), |(small, large)| {
            (
                if area(size) < area(small) {
                    size
                } else {
                    small
                },
                if area(size) > area(large) {
                    size
                } else {
                    large
                },
            )
        }));
        for ((_, all), own) in self.classes.iter_mut().zip(&pair.pixels) {
            *all += own;
        }
        self.ignored += pair.pixels.last().copied().unwrap_or(0);
    }
}
