//! How a map of tokens is cut into windows, and what that means for pairs of their tokens.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;

/// What the original adds to the score of two tokens that are no neighbours in the image.
const HIDDEN: f32 = -100.0;

/// The windows of a block: squares of tokens, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// Tokens along a side of the map.
    pub map: usize,
    /// Tokens along a side of a window; at most `map`.
    pub side: usize,
    /// How far the map is rolled up and to the left before it is cut.
    pub shift: usize,
}

impl Windows {
    /// Windows of `window_size` x `window_size` tokens, or a single one of the map's size where
    /// that is smaller.
    pub(super) fn new(map: usize, window_size: usize) -> Self {
        Self {
            map,
            side: window_size.min(map),
            shift: 0,
        }
    }

    /// The same windows, shifted by half a window, so that they span the borders of the unshifted
    /// ones. A single window has no borders and stays where it is.
    pub(super) fn shifted(self) -> Self {
        let shift = if self.side < self.map {
            self.side / 2
        } else {
            0
        };
        Self { shift, ..self }
    }

    /// Tokens of a window.
    pub(super) fn area(self) -> usize {
        self.side * self.side
    }

    /// Windows of a map.
    pub(super) fn count(self) -> usize {
        self.along().pow(2)
    }

    /// Places of one token relative to another in a window.
    pub(super) fn relative_positions(self) -> usize {
        (2 * self.side - 1).pow(2)
    }

    /// Rolls a map, pads it with zeros to whole windows, and cuts it.
    ///
    /// # Shapes
    ///
    /// `[batch, map, map, dim]` to `[batch, windows, area, dim]`.
    pub(super) fn cut(self, map: Tensor<4>) -> Tensor<4> {
        let [batch, _, _, dim] = map.dims();
        let rolled = roll(map, -(self.shift as isize));
        let padded = pad(rolled, self.padded() - self.map);
        let (along, side) = (self.along(), self.side);
        padded
            .reshape([batch, along, side, along, side, dim])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, self.count(), self.area(), dim])
    }

    /// Puts the windows of [`cut`](Self::cut) together again, without the padding.
    ///
    /// # Shapes
    ///
    /// `[batch, windows, area, dim]` to `[batch, map, map, dim]`.
    pub(super) fn join(self, windows: Tensor<4>) -> Tensor<4> {
        let [batch, _, _, dim] = windows.dims();
        let (along, side, padded) = (self.along(), self.side, self.padded());
        let map = windows
            .reshape([batch, along, along, side, side, dim])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, padded, padded, dim]);
        roll(crop(map, self.map), self.shift as isize)
    }

    /// For each pair of tokens of a window, query by query, the row of the table that holds the
    /// bias of their relative position.
    pub(super) fn relative_position_index(self) -> Vec<i32> {
        let side = self.side;
        let area = self.area();
        let pairs = (0..area).flat_map(|query| (0..area).map(move |key| (query, key)));
        let index = pairs.map(|(query, key)| {
            let down = query / side + side - 1 - key / side;
            let right = query % side + side - 1 - key % side;
            (down * (2 * side - 1) + right) as i32
        });
        index.collect()
    }

    /// What is added to the scores of a shifted map: 0 for a pair of tokens that were neighbours
    /// before the map was rolled, -100 for others, `[windows, area, area]`. `None` without a shift.
    pub(super) fn shift_mask(self) -> Option<Vec<f32>> {
        if self.shift == 0 {
            return None;
        }
        let (along, side) = (self.along(), self.side);
        // The last window of a row holds what was there before, and what was rolled in.
        let (last, rolled_in) = (self.padded() - side, self.padded() - self.shift);
        let region = move |place| usize::from(place >= last) + usize::from(place >= rolled_in);
        let mut mask = Vec::with_capacity(self.count() * self.area().pow(2));
        for window in 0..self.count() {
            let (top, left) = (window / along * side, window % along * side);
            let regions: Vec<_> = (0..self.area())
                .map(|token| (region(top + token / side), region(left + token % side)))
                .collect();
            for query in &regions {
                let hidden = |key| if key == query { 0.0 } else { HIDDEN };
                mask.extend(regions.iter().map(hidden));
            }
        }
        Some(mask)
    }

    /// Windows along a side of the map.
    fn along(self) -> usize {
        self.map.div_ceil(self.side)
    }

    /// Tokens along a side of the padded map.
    fn padded(self) -> usize {
        self.along() * self.side
    }
}

fn roll(map: Tensor<4>, by: isize) -> Tensor<4> {
    map.roll(&[by, by], &[1, 2])
}

/// The first rows and columns of a map.
fn crop(map: Tensor<4>, size: usize) -> Tensor<4> {
    if map.dims()[1] == size {
        return map;
    }
    map.narrow(1, 0, size).narrow(2, 0, size)
}

/// Adds rows and columns of zeros at the bottom and at the right of a map.
///
/// # Shapes
///
/// `[batch, rows, columns, dim]` to `[batch, rows + by, columns + by, dim]`.
pub(super) fn pad(map: Tensor<4>, by: usize) -> Tensor<4> {
    if by == 0 {
        return map;
    }
    map.pad([(0, by), (0, by), (0, 0)], PadMode::Constant(0.0))
}

#[cfg(test)]
mod tests;
