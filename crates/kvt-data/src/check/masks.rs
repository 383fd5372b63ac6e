//! `kvt data check` of images with masks: reads every pair once and reports what is wrong with it.

use std::path::{Path, PathBuf};

use super::{Check, look_at_all, uncounted, wider};
use crate::source::{Unpaired, mask_survey};
use crate::{
    DataConfig, DataError, DecodeError, IGNORED, ImageLimits, OtherFormats, Source, Unlisted,
};

/// One split of images with masks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaskCheck {
    /// The split's name, as the configuration has it.
    pub name: String,
    /// Number of images with a mask.
    pub images: usize,
    /// Pixels of each class, in order, with its name.
    pub classes: Vec<(String, u64)>,
    /// Pixels without a class.
    pub ignored: u64,
    /// Images of which no pixel has a class.
    pub unlabelled: Vec<PathBuf>,
    /// Pairs of which one file cannot be read, or that do not fit together.
    pub unreadable: Vec<DecodeError>,
    /// Images without a mask, masks without an image.
    pub unpaired: Unpaired,
    /// Links that are dead or circular, and folders that cannot be listed.
    pub unlisted: Vec<Unlisted>,
    /// Files in image formats that are not supported.
    pub others: OtherFormats,
    /// Smallest and largest (width, height) by area, in pixels; `None` if no image is readable.
    pub sizes: Option<((u32, u32), (u32, u32))>,
}

impl Check<MaskCheck> {
    /// Whether training can work: everything is readable and has its partner, and each split has two classes. A class without
    /// pixels is possible.
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

/// Reads every image with its mask of both splits of a configuration, on all cores.
///
/// # Errors
///
/// If a folder or a list is missing. Bad pairs are part of the result, not an error.
pub fn check_masks(data: &DataConfig, limits: ImageLimits) -> Result<Check<MaskCheck>, DataError> {
    let data = &*data.as_read();
    let splits_of = if data.val_fraction > 0.0 {
        // Images that are divided are in one folder.
        vec![""]
    } else {
        vec![data.train.as_str(), data.val.as_str()]
    };
    let mut surveys: Vec<(&str, Source, Unpaired)> = Vec::new();
    for name in splits_of {
        let known = surveys
            .first()
            .map(|(_, first, _)| first.classes.as_slice());
        let (source, unpaired) = mask_survey(data, name, known)?;
        surveys.push((name, source, unpaired));
    }
    let sources: Vec<&Source> = surveys.iter().map(|(_, source, _)| source).collect();
    let (found, duplicates) = look_at_all(&sources, limits, |source, index, _| {
        pair(source, index, limits)
    });
    let mut splits = Vec::new();
    for ((name, source, unpaired), pairs) in surveys.iter().zip(found) {
        let mut check = MaskCheck {
            name: if name.is_empty() { "all" } else { *name }.to_owned(),
            images: source.samples.len(),
            classes: uncounted(source),
            unpaired: unpaired.clone(),
            unlisted: source.unlisted.clone(),
            others: source.others.clone(),
            ..MaskCheck::default()
        };
        for (sample, pair) in source.samples.iter().zip(pairs) {
            match pair {
                Ok((size, pixels)) => check.count(&sample.path, size, &pixels),
                Err(bad) => check.unreadable.push(bad),
            }
        }
        splits.push(check);
    }
    Ok(Check {
        splits,
        // Those of the configuration.
        same_classes: true,
        duplicates,
    })
}

/// (Width, height) of an image, and the pixels of its mask by label.
fn pair(
    source: &Source,
    index: u32,
    limits: ImageLimits,
) -> Result<((u32, u32), [u64; 256]), DecodeError> {
    let (image, map) = source.pair(index, limits)?;
    let mut pixels = [0; 256];
    for label in map.labels {
        pixels[usize::from(label)] += 1;
    }
    Ok((image.dimensions(), pixels))
}

impl MaskCheck {
    fn count(&mut self, path: &Path, size: (u32, u32), pixels: &[u64; 256]) {
        self.sizes = Some(wider(self.sizes, size));
        for ((_, all), own) in self.classes.iter_mut().zip(pixels) {
            *all += own;
        }
        let ignored = pixels[usize::from(IGNORED)];
        self.ignored += ignored;
        if pixels.iter().sum::<u64>() == ignored {
            self.unlabelled.push(path.to_owned());
        }
    }
}
