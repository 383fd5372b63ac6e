//! Intersection over union of detections and objects.

use kvt_data::coco::rle::Rle;

use super::{Instance, Shapes};

/// An object, or a detection, as it is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) area: f64,
    pub(super) is_crowd: bool,
    pub(super) score: f64,
    /// Left, top, width, height: a box, or that around a mask.
    bounds: [f64; 4],
    mask: Option<&'a Rle>,
}

impl<'a> Item<'a> {
    /// What is compared of an instance.
    pub(super) fn new(shapes: Shapes, one: &'a Instance) -> Self {
        let mask = one.mask.as_ref().filter(|_| shapes == Shapes::Masks);
        let (bounds, area) = match mask {
            Some(mask) => (mask.bounding_box().map(f64::from), mask.area().into()),
            None => (one.bbox, one.bbox[2] * one.bbox[3]),
        };
        Self {
            area: one.area.unwrap_or(area),
            is_crowd: one.is_crowd,
            // The negative zero is no smaller than zero.
            score: one.score + 0.0,
            bounds,
            mask,
        }
    }
}

/// How much each detection of an image overlaps each of its objects, `[found, truth]`.
pub(super) fn overlaps(truths: &[Item<'_>], found: &[Item<'_>]) -> Vec<f64> {
    let found = found.iter();
    let rows = found.flat_map(|one| truths.iter().map(move |truth| overlap(one, truth)));
    rows.collect()
}

fn overlap(one: &Item<'_>, truth: &Item<'_>) -> f64 {
    let boxes = box_iou(one.bounds, truth.bounds, truth.is_crowd);
    match (one.mask, truth.mask) {
        // Most pairs of an image do not meet.
        (Some(mask), Some(other)) if boxes > 0.0 => mask.iou(other, truth.is_crowd),
        _ => boxes,
    }
}

/// Intersection over union of a detection's box and an object's, the share of the first that is in a crowd. In the order of
/// pycocotools, so that equal boxes are equal to the last digit.
fn box_iou(one: [f64; 4], truth: [f64; 4], is_crowd: bool) -> f64 {
    let [x, y, width, height] = one;
    let [other_x, other_y, other_width, other_height] = truth;
    let across = (width + x).min(other_width + other_x) - x.max(other_x);
    let down = (height + y).min(other_height + other_y) - y.max(other_y);
    if across <= 0.0 || down <= 0.0 {
        return 0.0;
    }
    let both = across * down;
    let own = width * height;
    let whole = if is_crowd {
        own
    } else {
        own + other_width * other_height - both
    };
    both / whole
}
