//! The objects of an augmented image.

use kvt_ops::{Object, ObjectMask};

use super::placement::Side;
use crate::coco::{Annotation, Rle};
use crate::source::ImageObjects;

/// What a detector is to find in an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// The image's id in the file of annotations, which result files have too.
    pub image_id: u64,
    /// Height and width of the image as the network sees it, in pixels, without padding.
    pub size: (usize, usize),
    /// Height and width of the original image.
    pub original: (usize, usize),
    /// The objects, cut to the image.
    pub all: Vec<Object>,
}

/// The pixels that show the part `[x, y, width, height]` of the original, of which `inside` gets row and column.
fn shown(
    [x, y, width, height]: [u32; 4],
    rows: &Side,
    columns: &Side,
    inside: impl Fn(u32, u32) -> bool,
) -> ObjectMask {
    let (left, across) = columns.showing(x, x.saturating_add(width));
    let (top, down) = rows.showing(y, y.saturating_add(height));
    let pixels = down
        .iter()
        .flat_map(|row| across.iter().map(|column| inside(*row, *column)));
    ObjectMask {
        top,
        left,
        height: down.len(),
        width: across.len(),
        inside: pixels.collect(),
    }
}

fn of_runs(mask: &Rle, rows: &Side, columns: &Side) -> ObjectMask {
    let width = mask.size().1 as usize;
    let pixels = mask.decode();
    let inside = |row: u32, column: u32| {
        let place = row as usize * width + column as usize;
        pixels.get(place) == Some(&true)
    };
    shown(mask.bounding_box(), rows, columns, inside)
}

impl From<&Rle> for ObjectMask {
    /// The same pixels, cut to the smallest box around them.
    fn from(runs: &Rle) -> Self {
        let (height, width) = runs.size();
        of_runs(runs, &Side::whole(height), &Side::whole(width))
    }
}

/// The pixels that a box touches, `[x, y, width, height]`.
fn surroundings([x, y, w, h]: [f64; 4], (height, width): (u32, u32)) -> [u32; 4] {
    let ends = |start: f64, length: f64, side: u32| {
        let cut = |value: f64| value.clamp(0.0, f64::from(side)) as u32;
        let (start, end) = (cut(start.floor()), cut((start + length).ceil()));
        (start, end.saturating_sub(start))
    };
    let ((x, w), (y, h)) = (ends(x, w, width), ends(y, h, height));
    [x, y, w, h]
}

impl Objects {
    /// The objects that are trained on, and are still there in an image with these sides.
    pub(super) fn new(found: ImageObjects<'_>, rows: &Side, columns: &Side) -> Self {
        let (height, width) = found.image.size;
        let placed = |object: &Annotation| {
            let [x, y, w, h] = object.bbox;
            let [x1, x2] = columns.interval([x, x + w]).map(|x| x as f32);
            let [y1, y2] = rows.interval([y, y + h]).map(|y| y as f32);
            (x1 < x2 && y1 < y2).then(|| Object {
                corners: [x1, y1, x2, y2],
                label: object.label,
                mask: match object.mask(found.image.size) {
                    Some(mask) => of_runs(&mask, rows, columns),
                    None => {
                        let part = surroundings(object.bbox, found.image.size);
                        shown(part, rows, columns, |_, _| true)
                    }
                },
            })
        };
        Self {
            image_id: found.image.id,
            size: (rows.pixels(), columns.pixels()),
            original: (height as usize, width as usize),
            all: found.trained().filter_map(placed).collect(),
        }
    }
}
