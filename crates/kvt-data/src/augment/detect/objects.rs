//! The objects of an augmented image.

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
    /// Boxes `[x1, y1, x2, y2]` in pixels of the image as the network sees it, cut to it, all with an area.
    pub boxes: Vec<[f32; 4]>,
    /// The class of each box.
    pub labels: Vec<usize>,
    /// The pixels of each object. Those of an object without a mask are the ones of its box.
    pub masks: Vec<ObjectMask>,
}

/// The pixels of an object, cut to its surroundings. All others are outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectMask {
    /// Row of the first pixel in the image.
    pub top: usize,
    /// Column of the first pixel in the image.
    pub left: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
    /// Whether each pixel is inside, `[height, width]`.
    pub inside: Vec<bool>,
}

impl ObjectMask {
    /// Whether a pixel of the image is inside.
    pub fn contains(&self, row: usize, column: usize) -> bool {
        let (Some(row), Some(column)) = (row.checked_sub(self.top), column.checked_sub(self.left))
        else {
            return false;
        };
        column < self.width && self.inside.get(row * self.width + column) == Some(&true)
    }

    /// The pixels that show the part `[x, y, width, height]` of the original, of which `inside` gets row and column.
    fn new(
        [x, y, width, height]: [u32; 4],
        rows: &Side,
        columns: &Side,
        inside: impl Fn(u32, u32) -> bool,
    ) -> Self {
        let (left, across) = columns.showing(x, x.saturating_add(width));
        let (top, down) = rows.showing(y, y.saturating_add(height));
        let pixels = down
            .iter()
            .flat_map(|row| across.iter().map(|column| inside(*row, *column)));
        Self {
            top,
            left,
            height: down.len(),
            width: across.len(),
            inside: pixels.collect(),
        }
    }

    fn of(object: &Annotation, image: (u32, u32), rows: &Side, columns: &Side) -> Self {
        match object.mask(image) {
            Some(mask) => Self::of_runs(&mask, rows, columns),
            None => {
                let part = surroundings(object.bbox, image);
                Self::new(part, rows, columns, |_, _| true)
            }
        }
    }

    fn of_runs(mask: &Rle, rows: &Side, columns: &Side) -> Self {
        let width = mask.size().1 as usize;
        let pixels = mask.decode();
        let inside = |row: u32, column: u32| {
            let place = row as usize * width + column as usize;
            pixels.get(place) == Some(&true)
        };
        Self::new(mask.bounding_box(), rows, columns, inside)
    }
}

impl From<&Rle> for ObjectMask {
    /// The same pixels, cut to the smallest box around them.
    fn from(runs: &Rle) -> Self {
        let (height, width) = runs.size();
        Self::of_runs(runs, &Side::whole(height), &Side::whole(width))
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
        let mut objects = Self {
            image_id: found.image.id,
            size: (rows.pixels(), columns.pixels()),
            original: (height as usize, width as usize),
            boxes: Vec::new(),
            labels: Vec::new(),
            masks: Vec::new(),
        };
        for object in found.trained() {
            let [x, y, w, h] = object.bbox;
            let [x1, x2] = columns.interval([x, x + w]).map(|x| x as f32);
            let [y1, y2] = rows.interval([y, y + h]).map(|y| y as f32);
            if x1 >= x2 || y1 >= y2 {
                continue;
            }
            let mask = ObjectMask::of(object, found.image.size, rows, columns);
            objects.masks.push(mask);
            objects.boxes.push([x1, y1, x2, y2]);
            objects.labels.push(object.label);
        }
        objects
    }
}
