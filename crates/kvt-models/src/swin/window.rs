//! The cutting of a map of tokens into windows, and its effect on pairs of their tokens.

use burn::tensor::Tensor;
use kvt_ops::RowOrder;

use crate::layers::{self, WindowPadding, crop, is_cpu, pad};

/// The number that the original adds to the score of two tokens that are not neighbours in the image.
const HIDDEN: f32 = -100.0;

/// The windows of a block: squares of tokens, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// Rows and columns of the map.
    pub map: [usize; 2],
    /// Tokens along a side of a window.
    pub side: usize,
    /// Whether the map is rolled by half a window before it is cut.
    shifted: bool,
    /// The backbone of a dense network, and how it treats padding.
    dense: Option<WindowPadding>,
}

impl Windows {
    /// Windows of `window_size` x `window_size` tokens on a square map, or a single one of the size of the map if
    /// that is smaller.
    pub(super) fn new(map: usize, window_size: usize) -> Self {
        Self {
            map: [map; 2],
            side: window_size.min(map),
            shifted: false,
            dense: None,
        }
    }

    /// Windows of `window_size` x `window_size` tokens on a map of any size, in the order of dense networks.
    pub(super) fn dense(map: usize, window_size: usize, padding: WindowPadding) -> Self {
        Self {
            side: window_size,
            dense: Some(padding),
            ..Self::new(map, window_size)
        }
    }

    /// The same windows, shifted by half a window, so that they span the borders of the unshifted ones. A single
    /// window has no borders and is not shifted, except in dense networks.
    pub(super) fn shifted(self) -> Self {
        Self {
            shifted: true,
            ..self
        }
    }

    /// Windows of the same size on a map of another size.
    pub(super) fn on(self, map: [usize; 2]) -> Self {
        Self { map, ..self }
    }

    /// How far the map is rolled up and to the left.
    pub(super) fn shift(self) -> [usize; 2] {
        self.map.map(|size| {
            if self.shifted && (self.side < size || self.dense.is_some()) {
                self.side / 2
            } else {
                0
            }
        })
    }

    /// Tokens of a window.
    pub(super) fn area(self) -> usize {
        self.unshifted().area()
    }

    /// Windows of a map.
    pub(super) fn count(self) -> usize {
        self.unshifted().count()
    }

    /// The number of positions of one token relative to another in a window.
    pub(super) fn relative_positions(self) -> usize {
        (2 * self.side - 1).pow(2)
    }

    /// Rolls a map, pads it with zeros to whole windows, and cuts it. Dense networks pad before they roll.
    ///
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to `[batch, windows, area, dim]`.
    pub(super) fn cut(self, map: Tensor<4>) -> Tensor<4> {
        let windows = self.unshifted();
        if is_cpu(&map) {
            return windows.cut_in(self.order(), map);
        }
        let by = self.shift().map(|by| -(by as isize));
        if self.dense.is_none() {
            return windows.cut(roll(map, by));
        }
        let padded = windows.padded();
        let padding = [0, 1].map(|axis| padded[axis] - self.map[axis]);
        windows.cut(roll(pad(map, padding), by))
    }

    /// Puts the windows of [`cut`](Self::cut) together again, without the padding.
    ///
    /// # Shapes
    ///
    /// `[batch, windows, area, dim]` to `[batch, rows, columns, dim]`.
    pub(super) fn join(self, windows: Tensor<4>) -> Tensor<4> {
        if is_cpu(&windows) {
            return self.unshifted().join_in(&self.order(), windows);
        }
        let by = self.shift().map(|by| by as isize);
        if self.dense.is_none() {
            return roll(self.unshifted().join(windows), by);
        }
        let whole = layers::Windows {
            map: self.unshifted().padded(),
            side: self.side,
        };
        crop(roll(whole.join(windows), by), self.map)
    }

    /// Where the tokens of the map are in the windows.
    fn order(self) -> RowOrder {
        let windows = self.unshifted();
        let whole = match self.dense {
            Some(_) => windows.padded(),
            None => self.map,
        };
        windows.order(self.shift(), whole)
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

    /// The numbers that are added to the scores of a shifted map: 0 for a pair of tokens that were neighbours before
    /// the map was rolled, -100 for others, `[windows, area, area]`. `None` without a shift.
    pub(super) fn shift_mask(self) -> Option<Vec<f32>> {
        let (shift, side) = (self.shift(), self.side);
        if shift == [0, 0] {
            return None;
        }
        // The last window of a row holds its previous tokens, and those that were rolled in.
        let padded = self.unshifted().padded();
        let region = |axis: usize, place: usize| {
            let (last, rolled_in) = (padded[axis] - side, padded[axis] - shift[axis]);
            usize::from(place >= last) + usize::from(place >= rolled_in)
        };
        let [_, right] = self.unshifted().along();
        let mut mask = Vec::with_capacity(self.count() * self.area().pow(2));
        for window in 0..self.count() {
            let (top, left) = (window / right * side, window % right * side);
            let regions: Vec<_> = (0..self.area())
                .map(|token| {
                    (
                        region(0, top + token / side),
                        region(1, left + token % side),
                    )
                })
                .collect();
            for query in &regions {
                let hidden = |key| if key == query { 0.0 } else { HIDDEN };
                mask.extend(regions.iter().map(hidden));
            }
        }
        Some(mask)
    }

    /// Whether keys are hidden because they are padding.
    pub(super) fn hides_padding(self) -> bool {
        self.dense == Some(WindowPadding::Hidden) && self.unshifted().padded() != self.map
    }

    /// `true` for keys that are padding and [hidden](Self::hides_padding), except a token from itself, `[windows,
    /// area, area]`.
    pub(super) fn hidden_padding(self) -> Option<Vec<bool>> {
        if !self.hides_padding() {
            return None;
        }
        let (side, area, shift) = (self.side, self.area(), self.shift());
        let padded = self.unshifted().padded();
        let [_, right] = self.unshifted().along();
        let is_padding =
            |axis: usize, place: usize| (place + shift[axis]) % padded[axis] >= self.map[axis];
        let mut hidden = Vec::with_capacity(self.count() * area.pow(2));
        for window in 0..self.count() {
            let (top, left) = (window / right * side, window % right * side);
            let padding: Vec<bool> = (0..area)
                .map(|token| {
                    is_padding(0, top + token / side) || is_padding(1, left + token % side)
                })
                .collect();
            for query in 0..area {
                let keys = padding.iter().enumerate();
                hidden.extend(keys.map(|(key, padding)| *padding && key != query));
            }
        }
        Some(hidden)
    }

    /// The windows of the map after the roll.
    fn unshifted(self) -> layers::Windows {
        let Self { map, side, .. } = self;
        layers::Windows { map, side }
    }
}

fn roll(map: Tensor<4>, by: [isize; 2]) -> Tensor<4> {
    map.roll(&by, &[1, 2])
}

#[cfg(test)]
mod tests;
