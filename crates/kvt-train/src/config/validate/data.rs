//! `[data]` and `[augment]`.

use std::path::PathBuf;

use super::{Checks, POSITIVE, SHARE};
use crate::config::choices::{AugmentPreset, RawDataKind, RawOnError};
use crate::config::plan::{AugmentPlan, DataKind, DataPlan, OnErrorSetting, ShapesPlan, Workers};
use crate::config::raw::RawWorkers;

/// Batches that wait: each is memory.
const MOST_WAITING: usize = 1024;
/// A border that a crop may reach into, in pixels.
const WIDEST_BORDER: u32 = 65_535;
/// Mean and deviation of values in [0, 1] or [0, 255], and anything near them.
const NORMAL: f64 = 1e6;
/// At this share the resized image has a hundred times the pixels that are used.
const LEAST_CROP: f64 = 0.1;

impl Checks<'_> {
    pub(super) fn data(&mut self) -> DataPlan {
        let raw = &self.document.raw.data;
        let shapes = self.shapes();
        let path = match (&raw.path, raw.kind) {
            (Some(path), _) => self.text("data.path", path),
            (None, RawDataKind::Shapes) => "data/shapes".to_owned(),
            (None, RawDataKind::Folder) => {
                let help = "add `path = \"FOLDER\"` under `[data]`, with images at \
                            `FOLDER/train/<class>/*`, or `kind = \"shapes\"` for generated images";
                self.missing("data.path", help.to_owned());
                String::new()
            }
        };
        DataPlan {
            kind: match raw.kind {
                RawDataKind::Folder => DataKind::Folder,
                RawDataKind::Shapes => DataKind::Shapes(shapes),
            },
            path: PathBuf::from(path),
            train: self.text("data.train", &raw.train),
            val: self.text("data.val", &raw.val),
            class_order: raw.class_order,
            shuffle: raw.shuffle,
            drop_last: raw.drop_last,
            workers: match raw.workers {
                RawWorkers::Word(_) => Workers::Auto,
                RawWorkers::Count(count) => {
                    Workers::Count(self.count("data.workers", count, ..=1024))
                }
            },
            prefetch: self.count("data.prefetch", raw.prefetch, 1..=MOST_WAITING),
            on_error: match raw.on_error {
                RawOnError::Fail => OnErrorSetting::Fail,
                RawOnError::Skip => OnErrorSetting::Skip {
                    max: raw.max_skipped,
                },
            },
            max_pixels: self.count("data.max_pixels", raw.max_pixels, 1..),
            check_sizes: raw.check_sizes,
        }
    }

    fn shapes(&mut self) -> ShapesPlan {
        let raw = &self.document.raw.data.shapes;
        ShapesPlan {
            image_size: self.count("data.shapes.image_size", raw.image_size, 8..=1024),
            classes: self.count("data.shapes.classes", raw.classes, 2..=10),
            train_per_class: self.count(
                "data.shapes.train_per_class",
                raw.train_per_class,
                1..=100_000,
            ),
            val_per_class: self.count("data.shapes.val_per_class", raw.val_per_class, 1..=100_000),
            clutter: self.number("data.shapes.clutter", raw.clutter, 0.0..=1.0),
            occlusion: self.number("data.shapes.occlusion", raw.occlusion, 0.0..=1.0),
            seed: raw.seed,
        }
    }

    pub(super) fn augment(&mut self) -> AugmentPlan {
        let raw = &self.document.raw.augment;
        let hflip = raw.hflip.unwrap_or(match raw.preset {
            AugmentPreset::Imagenet | AugmentPreset::Cifar => 0.5,
            AugmentPreset::None => 0.0,
        });
        let crop_pct = raw.crop_pct.unwrap_or(match raw.preset {
            AugmentPreset::Imagenet => 0.875,
            AugmentPreset::Cifar | AugmentPreset::None => 1.0,
        });
        AugmentPlan {
            preset: raw.preset,
            scale: self.pair("augment.scale", raw.scale, SHARE),
            ratio: self.pair("augment.ratio", raw.ratio, POSITIVE),
            hflip: self.number("augment.hflip", hflip, 0.0..=1.0),
            padding: self.count("augment.padding", raw.padding, ..=WIDEST_BORDER),
            interpolation: raw.interpolation,
            mean: self.numbers("augment.mean", raw.mean, -NORMAL..=NORMAL),
            std: self.numbers("augment.std", raw.std, 1.0 / NORMAL..=NORMAL),
            crop_pct: self.number("augment.crop_pct", crop_pct, LEAST_CROP..=1.0),
        }
    }
}
