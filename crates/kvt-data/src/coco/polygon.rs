//! Outlines of objects, and the pixels inside of them as pycocotools finds these.

use super::Fault;
use super::rle::Rle;

/// Places of an outline in a pixel: pycocotools rounds to fifths before anything else.
const FIFTHS: i32 = 5;
/// Corners are at most this far from the corner of the image, in pixels: twice the longest side of any image.
const FURTHEST: f64 = 131_072.0;
/// Most fifths of a pixel that an outline is long. An image's side has 65,500 pixels; a hostile outline would take all time.
const LONGEST: u64 = 1 << 26;

/// A part of an object by its outline.
///
/// Only the fifths of pixels are kept, as whole numbers: nothing else decides which pixels are inside, and coordinates as `f32` would
/// round some of them to another fifth than pycocotools does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polygon(Box<[[i32; 2]]>);

impl Polygon {
    /// From `x, y, x, y, ...` in pixels.
    ///
    /// # Errors
    /// If there are fewer than three corners, a coordinate has no partner, is no number or far from the image, or the outline is
    /// longer than that of any object.
    pub fn new(coordinates: &[f64]) -> Result<Self, Fault> {
        if coordinates.len() < 6 || !coordinates.len().is_multiple_of(2) {
            return Err(Fault::Corners(coordinates.len()));
        }
        if let Some(&value) = coordinates.iter().find(|value| !is_near(**value)) {
            return Err(Fault::Coordinate(value));
        }
        let (pairs, _) = coordinates.as_chunks::<2>();
        let corners: Box<[[i32; 2]]> = pairs.iter().map(|pair| pair.map(fifths)).collect();
        let polygon = Self(corners);
        // Steps of a walk along each edge.
        let edges = polygon.edges();
        let steps = edges.map(|([x0, y0], [x1, y1])| x0.abs_diff(x1).max(y0.abs_diff(y1)));
        if steps.map(u64::from).sum::<u64>() > LONGEST {
            return Err(Fault::Outline);
        }
        Ok(polygon)
    }

    /// The pixels inside, of an image of `(height, width)` pixels, which are fewer than 2^32, with the runs that pycocotools has for it.
    ///
    /// # Panics
    /// If there are more pixels, in a build that checks for overflow.
    pub fn mask(&self, size: (u32, u32)) -> Rle {
        let mut crossings = Vec::new();
        let mut before: Option<[i32; 2]> = None;
        for (from, to) in self.edges() {
            walk(from, to, |[x, y]| {
                if let Some([x_before, y_before]) = before
                    && x != x_before
                {
                    let left = if x < x_before { x } else { x - 1 };
                    crossings.extend(crossing(left, y.min(y_before), size));
                }
                before = Some([x, y]);
            });
        }
        Rle {
            size,
            counts: runs(crossings, size.0 * size.1),
        }
    }

    /// The edges, the last of which closes the outline.
    fn edges(&self) -> impl Iterator<Item = ([i32; 2], [i32; 2])> {
        let next = self.0.iter().cycle().skip(1);
        self.0.iter().copied().zip(next.copied())
    }
}

fn is_near(value: f64) -> bool {
    value.abs() <= FURTHEST
}

/// Rounded toward zero, not down: this tells negative coordinates apart.
fn fifths(value: f64) -> i32 {
    (f64::from(FIFTHS) * value + 0.5) as i32
}

/// Visits the points of an edge, both ends included, in unit steps along its longer axis.
///
/// The other coordinate is always computed from the end with the smaller main coordinate, so that an edge has the same points in both
/// directions.
fn walk(from: [i32; 2], to: [i32; 2], mut visit: impl FnMut([i32; 2])) {
    let is_wide = from[0].abs_diff(to[0]) >= from[1].abs_diff(to[1]);
    let (main, other) = if is_wide { (0, 1) } else { (1, 0) };
    let is_turned = from[main] > to[main];
    let (start, end) = if is_turned { (to, from) } else { (from, to) };
    let count = end[main] - start[main];
    // Without a step, both ends are one point.
    let slope = f64::from(end[other] - start[other]) / f64::from(count.max(1));
    for step in 0..=count {
        let t = if is_turned { count - step } else { step };
        let along = start[main] + t;
        let across = (f64::from(start[other]) + slope * f64::from(t) + 0.5) as i32;
        visit(if is_wide {
            [along, across]
        } else {
            [across, along]
        });
    }
}

/// Where the outline crosses the middle of a column of pixels: the place of the first pixel below, column by column.
fn crossing(x: i32, y: i32, (height, width): (u32, u32)) -> Option<u32> {
    // The middle of pixel `i` is at the fifth `5 i + 2`.
    let middle = x - FIFTHS / 2;
    if middle.rem_euclid(FIFTHS) != 0 {
        return None;
    }
    let column = u32::try_from(middle / FIFTHS)
        .ok()
        .filter(|column| *column < width)?;
    // Rounded up.
    let row = (y - FIFTHS / 2 + FIFTHS - 1).div_euclid(FIFTHS).max(0);
    Some(column * height + row.cast_unsigned().min(height))
}

/// The runs between crossings. Two at one place are none.
fn runs(mut crossings: Vec<u32>, pixels: u32) -> Vec<u32> {
    crossings.push(pixels);
    crossings.sort_unstable();
    let mut before = 0;
    let mut differences = crossings.into_iter().map(|place| {
        let difference = place - before;
        before = place;
        difference
    });
    let mut counts: Vec<u32> = differences.next().into_iter().collect();
    while let Some(difference) = differences.next() {
        if difference > 0 {
            counts.push(difference);
        } else if let (Some(last), Some(next)) = (counts.last_mut(), differences.next()) {
            *last += next;
        }
    }
    counts
}

#[cfg(test)]
mod tests;
