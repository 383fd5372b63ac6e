//! What the mask of a region should be: the object's pixels in its box, on the host.

use kvt_ops::ObjectMask;

use crate::dense::boxes::Corners;

/// The points of one bin along an axis: places of pixels and their weights, not divided by the number of points.
type Bin = Vec<(usize, f64)>;

/// Whether the object covers at least half of each of `side` x `side` bins of a box, row by row.
///
/// That is RoIAlign of the object's bitmap (scale 1, adaptive sampling, aligned), compared with 0.5. Its weights along rows and columns
/// are separate, so the rows of a bin are added up first. `size` is height and width of the image in pixels, to which the box is
/// clipped. A box without an area covers nothing.
pub(super) fn outline(
    mask: &ObjectMask,
    corners: Corners,
    [height, width]: [usize; 2],
    side: usize,
) -> Vec<bool> {
    let [x1, y1, x2, y2] = corners.map(f64::from);
    let (rows, of_row) = bins([y1, y2], height, side);
    let (columns, of_column) = bins([x1, x2], width, side);
    let points = (of_row * of_column) as f64;
    let mut covered = Vec::with_capacity(side * side);
    for row in &rows {
        let mut sums = vec![0.0; mask.width];
        for (place, weight) in row {
            for (sum, inside) in sums.iter_mut().zip(row_of(mask, *place)) {
                if *inside {
                    *sum += weight;
                }
            }
        }
        covered.extend(columns.iter().map(|column| {
            let terms = column.iter().map(|(place, weight)| {
                let sum = place.checked_sub(mask.left).and_then(|at| sums.get(at));
                weight * sum.copied().unwrap_or(0.0)
            });
            // Sums of whole and half pixels are exact, means are not.
            points > 0.0 && 2.0 * terms.sum::<f64>() >= points
        }));
    }
    covered
}

/// The row of the image with this number: its pixels in the mask, from the column `left` on; nothing outside of the mask.
fn row_of(mask: &ObjectMask, row: usize) -> &[bool] {
    let first = row.checked_sub(mask.top).map(|row| row * mask.width);
    let pixels = first.and_then(|first| mask.inside.get(first..first + mask.width));
    pixels.unwrap_or(&[])
}

/// The bins between two borders along an axis of `length` pixels, and the points of each.
fn bins(borders: [f64; 2], length: usize, count: usize) -> (Vec<Bin>, usize) {
    let [from, to] = borders.map(|border| border.clamp(0.0, length as f64));
    let side = (to - from) / count as f64;
    let points = side.max(0.0).ceil() as usize;
    let bin = |at: usize| -> Bin {
        let start = from - 0.5 + at as f64 * side;
        let place = |point: usize| start + (point as f64 + 0.5) * side / points as f64;
        let taps = (0..points).flat_map(|point| taps(place(point), length));
        taps.collect()
    };
    ((0..count).map(bin).collect(), points)
}

/// The two pixels that a point lies between, with their weights; half a pixel beyond the outermost centres these count alone. A place
/// 0 is the centre of the first pixel.
fn taps(place: f64, length: usize) -> [(usize, f64); 2] {
    let last = length.saturating_sub(1);
    let place = place.clamp(0.0, last as f64);
    let first = place as usize;
    let share = place - first as f64;
    [(first, 1.0 - share), ((first + 1).min(last), share)]
}
