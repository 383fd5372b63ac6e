//! `kvt data check` of images with masks: reads every pair once and reports what is wrong with it.

use rayon::prelude::*;

use super::{Contents, Duplicate, Unreadable, uncounted, wider};
use crate::source::{Survey, Unpaired, mask_survey};
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
    /// The splits for training and validation; one of all images if `data.val_fraction` divides them.
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
    let splits_of = if data.val_fraction > 0.0 {
        // Images that are divided are in one folder.
        vec![""]
    } else {
        vec![data.train.as_str(), data.val.as_str()]
    };
    let mut surveys: Vec<(&str, Survey, Unpaired)> = Vec::new();
    for name in splits_of {
        let before = surveys.first().map(|(_, survey, _)| &survey.source);
        let (survey, unpaired) = mask_survey(data, name, before)?;
        surveys.push((name, survey, unpaired));
    }
    let mut contents = Contents::default();
    let mut splits = Vec::new();
    for (number, (name, survey, unpaired)) in surveys.iter().enumerate() {
        let source = &survey.source;
        let seen: Vec<_> = (0..source.samples.len())
            .into_par_iter()
            .map(|index| look(source, index, limits))
            .collect();
        let mut check = MaskCheck {
            name: if name.is_empty() { "all" } else { *name }.to_owned(),
            images: source.samples.len(),
            classes: uncounted(source),
            ignored: 0,
            unreadable: Vec::new(),
            unpaired: unpaired.clone(),
            unlisted: survey.unlisted.clone(),
            others: source.others.clone(),
            sizes: None,
        };
        for (Sample { path, .. }, (hash, pair)) in source.samples.iter().zip(seen) {
            if let Some(hash) = hash {
                contents.add(hash, number, path);
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
    Ok(MaskChecks {
        duplicates: contents.duplicates(),
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
        self.sizes = Some(wider(self.sizes, pair.size));
        for ((_, all), own) in self.classes.iter_mut().zip(&pair.pixels) {
            *all += own;
        }
        self.ignored += pair.pixels.last().copied().unwrap_or(0);
    }
}
