//! The weights of the inputs of each bin, along one axis.
//!
//! The value of a bin is the mean of maps at points in it, interpolated between four pixels. The points are a grid, and the weight of
//! a pixel is that of its row times that of its column: the mean over the grid is a mean along one axis after the other.

use std::ops::Range;

/// The inputs of a bin along an axis. They are neighbours, since points are at most a pixel apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bin {
    /// The first input.
    first: usize,
    /// The weights of the inputs. There are none if all points of the bin count 0.
    pub(super) weights: Vec<f32>,
}

impl Bin {
    /// The places of the inputs.
    pub(super) fn inputs(&self) -> Range<usize> {
        self.first..self.first + self.weights.len()
    }

    /// Adds a point, which is not before those that were added.
    fn add(&mut self, place: f32) {
        let input = place as usize;
        if self.weights.is_empty() {
            self.first = input;
        }
        let share = place - input as f32;
        for (input, weight) in [(input, 1.0 - share), (input + 1, share)] {
            if weight > 0.0 {
                let at = input - self.first;
                if at >= self.weights.len() {
                    self.weights.resize(at + 1, 0.0);
                }
                self.weights[at] += weight;
            }
        }
    }
}

/// The `count` bins between two borders in pixels of the network's input, on an axis of `size` inputs (at least 1). A pixel of the
/// input is `scale` pixels of the map.
///
/// A bin has as many points as its side has pixels, rounded up, and a bin without a side has none. Points that are more than a pixel
/// outside of the map count 0 in the mean, and others outside of the outermost centres are moved there. The arithmetic is
/// torchvision's in f32, since rounding decides how many points there are and which of them count.
pub(super) fn bins([low, high]: [f32; 2], count: usize, size: usize, scale: f32) -> Vec<Bin> {
    // The centre of the first pixel is 0.
    let [low, high] = [low, high].map(|border| border * scale - 0.5);
    let side = (high - low) / count as f32;
    let points = side.ceil();
    if !(side > 0.0 && points.is_finite()) {
        return vec![Bin::default(); count];
    }
    let (size, last) = (size as f32, (size - 1) as f32);
    let of_bin = |number: usize| {
        let start = low + number as f32 * side;
        // Others are not on the map, and a huge bin has many of them.
        let reached = |place: f32| (place - start) / (side / points);
        let from = (reached(-1.0) - 1.0).max(0.0) as usize;
        let to = (reached(size) + 1.0).min(points) as usize;
        let mut bin = Bin::default();
        for point in from..to {
            let place = start + (point as f32 + 0.5) * side / points;
            if (-1.0..=size).contains(&place) {
                bin.add(place.clamp(0.0, last));
            }
        }
        for weight in &mut bin.weights {
            *weight /= points;
        }
        bin
    };
    (0..count).map(of_bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two bins on an axis of four inputs: the first input and the weights of each.
    fn two(borders: [f32; 2], scale: f32) -> [(usize, Vec<f32>); 2] {
        let found = bins(borders, 2, 4, scale);
        assert_eq!(found.len(), 2);
        [0, 1].map(|bin| (found[bin].first, found[bin].weights.clone()))
    }

    /// By hand.
    #[test]
    fn weights_are_those_of_the_points() {
        // Bins of two pixels have two points, here at the centres of pixels.
        let whole = two([0.0, 4.0], 1.0);
        assert_eq!(whole, [(0, vec![0.5; 2]), (2, vec![0.5; 2])]);
        // One point in the centre of a pixel.
        assert_eq!(two([1.0, 3.0], 1.0), [(1, vec![1.0]), (2, vec![1.0])]);
        // One point between two pixels.
        let between = two([0.5, 2.5], 1.0);
        assert_eq!(between, [(0, vec![0.5; 2]), (1, vec![0.5; 2])]);
        // Points at -2 and -1 are before the map, of which the second still counts.
        let across = two([-2.0, 2.0], 1.0);
        assert_eq!(across, [(0, vec![0.5]), (0, vec![0.5; 2])]);
        // Four pixels of the input are one of the map.
        assert_eq!(two([0.0, 16.0], 0.25), whole);
        // A bin of 1.5 pixels has two points: at -0.125, 0.625, 1.375 and 2.125.
        let finer = two([0.0, 3.0], 1.0);
        assert_eq!(
            finer,
            [(0, vec![0.6875, 0.3125]), (1, vec![0.3125, 0.625, 0.0625])]
        );
    }

    #[test]
    fn points_after_the_map_count_0_too() {
        // At 3, 4, 5 and 6: 4 is a pixel after the last.
        assert_eq!(two([3.0, 7.0], 1.0), [(3, vec![1.0]), (0, vec![])]);
        assert_eq!(two([40.0, 44.0], 1.0), [(0, vec![]), (0, vec![])]);
    }

    #[test]
    fn a_region_without_a_side_has_no_points() {
        for borders in [
            [3.0, 3.0],
            [3.0, 1.0],
            [f32::NAN, 3.0],
            [0.0, f32::INFINITY],
            [f32::MIN, f32::MAX],
        ] {
            assert_eq!(two(borders, 1.0), [(0, vec![]), (0, vec![])], "{borders:?}");
        }
    }

    /// Every point counts, but only those on the map are visited.
    #[test]
    fn a_huge_region_takes_no_longer() {
        let found = two([-1e30, 1e30], 1.0);
        for (_, weights) in found {
            assert!(weights.iter().all(|weight| *weight < 1e-20), "{weights:?}");
        }
        // Bins of 1000 points, a pixel apart: all pixels are in the first, with the pixel before and after the map.
        let [(first, weights), second] = two([-500.0, 1500.0], 1.0);
        assert_eq!((first, second), (0, (0, vec![])));
        assert_eq!(weights, [0.002, 0.001, 0.001, 0.002]);
    }
}
