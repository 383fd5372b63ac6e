//! Intersection over union of detections and objects.

use kvt_data::coco::rle::Rle;

use super::{ApError, Found, Shapes, Truth};

/// An object, or a detection, as it is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) image: u64,
    pub(super) class: usize,
    /// That of the annotation for objects; of what is compared for detections.
    pub(super) area: f64,
    pub(super) is_crowd: bool,
    pub(super) score: f64,
    /// Left, top, width, height: a box, or that around a mask.
    bounds: [f64; 4],
    mask: Option<&'a Rle>,
}

impl<'a> Item<'a> {
    /// An object.
    ///
    /// # Errors
    /// If masks are compared and it has none.
    pub(super) fn truth(shapes: Shapes, one: &'a Truth) -> Result<Self, ApError> {
        let (bounds, mask) = shape(shapes, one.image, one.bbox, one.mask.as_ref())?;
        Ok(Self {
            image: one.image,
            class: one.class,
            area: one.area,
            is_crowd: one.is_crowd,
            score: 0.0,
            bounds,
            mask,
        })
    }

    /// A detection.
    ///
    /// # Errors
    /// If masks are compared and it has none.
    pub(super) fn found(shapes: Shapes, one: &'a Found) -> Result<Self, ApError> {
        let (bounds, mask) = shape(shapes, one.image, one.bbox, one.mask.as_ref())?;
        Ok(Self {
            image: one.image,
            class: one.class,
            area: mask.map_or_else(|| bounds[2] * bounds[3], |mask| f64::from(mask.area())),
            is_crowd: false,
            // The negative zero is no smaller than zero.
            score: one.score + 0.0,
            bounds,
            mask,
        })
    }
}

type Shape<'a> = ([f64; 4], Option<&'a Rle>);

fn shape(
    shapes: Shapes,
    image: u64,
    bbox: [f64; 4],
    mask: Option<&Rle>,
) -> Result<Shape<'_>, ApError> {
    match shapes {
        Shapes::Boxes => Ok((bbox, None)),
        Shapes::Masks => {
            let mask = mask.ok_or(ApError::Mask(image))?;
            Ok((mask.bounding_box().map(f64::from), Some(mask)))
        }
    }
}

/// How much each detection overlaps each object of its image, `[found, truth]`.
///
/// # Errors
/// If masks differ in size.
pub(super) fn overlaps(truths: &[Item<'_>], found: &[Item<'_>]) -> Result<Vec<f64>, ApError> {
    let pairs = found
        .iter()
        .flat_map(|one| truths.iter().map(move |truth| (one, truth)));
    pairs.map(|(one, truth)| overlap(one, truth)).collect()
}

fn overlap(one: &Item<'_>, truth: &Item<'_>) -> Result<f64, ApError> {
    let boxes = box_iou(one.bounds, truth.bounds, truth.is_crowd);
    match (one.mask, truth.mask) {
        (Some(mask), Some(other)) if mask.size() != other.size() => Err(ApError::Size(one.image)),
        // Most pairs of an image do not meet.
        (Some(mask), Some(other)) if boxes > 0.0 => Ok(mask.iou(other, truth.is_crowd)),
        _ => Ok(boxes),
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
