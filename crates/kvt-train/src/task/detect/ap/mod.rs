//! Average precision of detections, as pycocotools 2.0.11 computes it.
//!
//! - [`overlap`]: intersection over union of detections and objects of an image.
//! - [`matching`]: which detection finds which object, at ten thresholds of it.
//! - [`curve`]: precision and recall over all images.

mod curve;
mod matching;
mod overlap;

use std::collections::BTreeMap;

use kvt_data::coco::rle::Rle;

use curve::Curve;
use matching::Matches;
use overlap::{Item, overlaps};

/// Thresholds of the overlap: 0.5, 0.55, .. 0.95.
const THRESHOLDS: usize = 10;
/// The place of 0.75 among them.
const AT_75: usize = 5;
/// How many detections of an image and class count, the best ones; recall is also given for fewer.
const MOST_FOUND: usize = 100;
/// Areas of objects, both ends included: all, small, medium, large.
const AREAS: [(f64, f64); 4] = [(0.0, 1e10), (0.0, 1024.0), (1024.0, 9216.0), (9216.0, 1e10)];

/// An object of an image, or a detection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instance {
    /// Number of the image. Detections of equal score count in the order of these numbers.
    pub image: u64,
    /// Its class.
    pub class: usize,
    /// Left, top, width, height.
    pub bbox: [f64; 4],
    /// The area that says whether it is small, medium or large: of an object as annotated, otherwise of what is compared.
    pub area: Option<f64>,
    /// A region of many objects: what is found inside of it counts neither as right nor as wrong.
    pub is_crowd: bool,
    /// How sure a detection is, not NaN. Only the order matters: of equal ones that of the images, then that of the list.
    pub score: f64,
    /// Its pixels, in an image of one size. What has none is compared by its box.
    pub mask: Option<Rle>,
}

/// What of objects and detections is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shapes {
    /// Boxes.
    Boxes,
    /// Masks.
    Masks,
}

/// Precision and recall, between 0 and 1; `None` where nothing counts, as without any small object.
///
/// Means over classes that have objects, and, but for `ap50` and `ap75`, over the overlaps 0.5, 0.55, .. 0.95.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AveragePrecision {
    /// Average precision.
    pub ap: Option<f64>,
    /// At an overlap of 0.5.
    pub ap50: Option<f64>,
    /// At an overlap of 0.75.
    pub ap75: Option<f64>,
    /// Of objects with an area up to 32 x 32 pixels.
    pub ap_small: Option<f64>,
    /// Of objects with an area up to 96 x 96 pixels.
    pub ap_medium: Option<f64>,
    /// Of larger ones.
    pub ap_large: Option<f64>,
    /// Average recall with one detection of an image and class.
    pub ar1: Option<f64>,
    /// With 10 of them.
    pub ar10: Option<f64>,
    /// With 100 of them.
    pub ar100: Option<f64>,
    /// Recall of small objects.
    pub ar_small: Option<f64>,
    /// Recall of medium objects.
    pub ar_medium: Option<f64>,
    /// Recall of large objects.
    pub ar_large: Option<f64>,
    /// Average precision of each class.
    pub classes: Vec<Option<f64>>,
}

impl AveragePrecision {
    /// The twelve numbers in the order in which pycocotools prints them, with their names for programs and for readers.
    pub fn numbers(&self) -> [(&'static str, &'static str, Option<f64>); 12] {
        [
            ("ap", "AP", self.ap),
            ("ap50", "AP50", self.ap50),
            ("ap75", "AP75", self.ap75),
            ("ap_small", "AP, small objects", self.ap_small),
            ("ap_medium", "AP, medium", self.ap_medium),
            ("ap_large", "AP, large", self.ap_large),
            ("ar1", "AR, 1 detection of a class", self.ar1),
            ("ar10", "AR, 10", self.ar10),
            ("ar100", "AR, 100", self.ar100),
            ("ar_small", "AR, small objects", self.ar_small),
            ("ar_medium", "AR, medium", self.ar_medium),
            ("ar_large", "AR, large", self.ar_large),
        ]
    }
}

/// Average precision of `found` for `truths`, of `classes` classes.
///
/// Images with neither change nothing. Of equal scores the first counts first.
///
/// # Panics
/// If a class is not below `classes`.
pub(super) fn average_precision(
    shapes: Shapes,
    classes: usize,
    truths: &[Instance],
    found: &[Instance],
) -> AveragePrecision {
    // Objects and detections of each class and image, in the order of the lists.
    let mut images: BTreeMap<(usize, u64), [Vec<Item<'_>>; 2]> = BTreeMap::new();
    for (kind, all) in [truths, found].into_iter().enumerate() {
        for one in all {
            let of_image = images.entry((one.class, one.image)).or_default();
            of_image[kind].push(Item::new(shapes, one));
        }
    }
    let mut matches: Vec<[Matches; 4]> = (0..classes).map(|_| Default::default()).collect();
    for ((class, _), [truths, mut found]) in images {
        // Stable: what is equal stays in the order of the list.
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(MOST_FOUND);
        let overlaps = overlaps(&truths, &found);
        for (area, matches) in AREAS.into_iter().zip(&mut matches[class]) {
            matches.add(&truths, &found, &overlaps, area);
        }
    }
    // `None` where no object counts.
    let curves = matches.into_iter().map(|areas| areas.map(Curve::of));
    curve::summary(&curves.collect::<Vec<_>>())
}

/// Numbers at equal distances, to the last digit as NumPy's `linspace` has them.
fn linspace(from: f64, to: f64, count: usize) -> impl Iterator<Item = f64> {
    let last = count - 1;
    let step = (to - from) / last as f64;
    (0..last)
        .map(move |number| number as f64 * step + from)
        .chain([to])
}

#[cfg(test)]
mod tests;
