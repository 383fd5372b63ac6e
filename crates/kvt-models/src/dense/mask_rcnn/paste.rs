//! The mask of a region in its image, on the host.

use kvt_ops::ObjectMask;

use crate::dense::boxes::Corners;

/// The least probability of a pixel inside.
const THRESHOLD: f64 = 0.5;

/// The pixels of an image, `[height, width]`, that are inside of an object: where the probabilities of its mask, as many rows as
/// columns over its box, are at least 0.5 after bilinear interpolation.
///
/// As in mmdetection and Detectron2, the centre of a pixel is half a pixel from its border, and the mask is zero around its box. So
/// no pixel outside of the box is inside of the object. A box without an area has no pixels.
#[must_use]
pub fn paste(mask: &[f32], corners: Corners, [height, width]: [usize; 2]) -> ObjectMask {
    let side = mask.len().isqrt();
    let [x1, y1, x2, y2] = corners.map(f64::from);
    let has_area = x2 > x1 && y2 > y1;
    if !has_area {
        return ObjectMask::default();
    }
    let ([left, right], [top, bottom]) = (pixels([x1, x2], width), pixels([y1, y2], height));
    let along = |[from, to]: [usize; 2], borders: [f64; 2]| -> Vec<f64> {
        (from..to).map(|at| place(at, borders, side)).collect()
    };
    let columns = along([left, right], [x1, x2]);
    let rows = along([top, bottom], [y1, y2]);
    let of_row = |row: &f64| {
        let row = *row;
        columns
            .iter()
            .map(move |column| interpolated(mask, side, [row, *column]) >= THRESHOLD)
    };
    ObjectMask {
        top,
        left,
        height: rows.len(),
        width: columns.len(),
        inside: rows.iter().flat_map(of_row).collect(),
    }
}

/// The pixels whose centres can be between two borders, as the first and the one after the last.
fn pixels([from, to]: [f64; 2], length: usize) -> [usize; 2] {
    let cut = |border: f64| border.clamp(0.0, length as f64) as usize;
    let first = cut(from.floor());
    [first, cut(to.ceil()).max(first)]
}

/// The centre of a pixel, in pixels of a mask whose outer borders are these; 0 is the centre of the mask's first.
pub(super) fn place(pixel: usize, [from, to]: [f64; 2], side: usize) -> f64 {
    (pixel as f64 + 0.5 - from) / (to - from) * side as f64 - 0.5
}

/// The probability at a place of the mask, `[row, column]`, by bilinear interpolation; around the mask there are zeros.
pub(super) fn interpolated(mask: &[f32], side: usize, at: [f64; 2]) -> f64 {
    let [(row, down), (column, right)] = at.map(|at| (at.floor(), at - at.floor()));
    let get = |row: f64, column: f64| {
        let within = |place: f64| (0.0..side as f64).contains(&place);
        let place = (within(row) && within(column)).then(|| row as usize * side + column as usize);
        let found = place.and_then(|place| mask.get(place));
        found.map_or(0.0, |value| f64::from(*value))
    };
    let line = |row: f64| get(row, column) * (1.0 - right) + get(row, column + 1.0) * right;
    line(row) * (1.0 - down) + line(row + 1.0) * down
}
