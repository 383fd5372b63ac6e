//! Windows of a Swin, and their effect on pairs of their tokens.

use crate::layers::{WindowPadding, Windows};

/// The number that the original adds to the score of two tokens that are not neighbours in the image.
const HIDDEN: f32 = -100.0;

impl Windows {
    /// Windows of `window_size` x `window_size` tokens on a square map. Of a classifier, there is a single one of the size of the map if
    /// that is smaller; in [dense](Self::dense) networks the map has any size.
    pub(super) fn new(map: usize, window_size: usize, dense: Option<WindowPadding>) -> Self {
        let side = match dense {
            Some(_) => window_size,
            None => window_size.min(map),
        };
        Self {
            dense,
            ..Self::plain([map; 2], side)
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

    /// The number of positions of one token relative to another in a window.
    pub(super) fn relative_positions(self) -> usize {
        (2 * self.side - 1).pow(2)
    }

    /// For each pair of tokens of a window, query by query, the row of the table that holds the
    /// bias of their relative position.
    pub(super) fn relative_position_index(self) -> Vec<i32> {
        let side = self.side;
        let window = Self::plain([side; 2], side);
        let tokens: Vec<[usize; 2]> = window.places().collect();
        let index = pairs(&tokens, self.area()).map(|(query, key)| {
            let [down, right] = [0, 1].map(|axis| query[axis] + side - 1 - key[axis]);
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
        let padded = self.padded();
        let region = |axis: usize, place: usize| {
            let (last, rolled_in) = (padded[axis] - side, padded[axis] - shift[axis]);
            usize::from(place >= last) + usize::from(place >= rolled_in)
        };
        let regions = self.places();
        let regions: Vec<_> = regions
            .map(|[row, column]| [region(0, row), region(1, column)])
            .collect();
        let pairs = pairs(&regions, self.area());
        let mask = pairs.map(|(query, key)| if key == query { 0.0 } else { HIDDEN });
        Some(mask.collect())
    }

    /// Whether keys are hidden because they are padding.
    pub(super) fn hides_padding(self) -> bool {
        self.dense == Some(WindowPadding::Hidden) && self.padded() != self.map
    }

    /// `true` for keys that are padding and [hidden](Self::hides_padding), except a token from itself, `[windows,
    /// area, area]`.
    pub(super) fn hidden_padding(self) -> Option<Vec<bool>> {
        if !self.hides_padding() {
            return None;
        }
        let tokens: Vec<_> = self.sources().enumerate().collect();
        let hidden = pairs(&tokens, self.area())
            .map(|((query, _), (key, source))| source.is_none() && key != query);
        Some(hidden.collect())
    }
}

/// The tokens of each window in pairs of a query and a key, query by query.
fn pairs<T>(tokens: &[T], area: usize) -> impl Iterator<Item = (&T, &T)> {
    tokens.chunks_exact(area).flat_map(|window| {
        let keys = move |query| window.iter().map(move |key| (query, key));
        window.iter().flat_map(keys)
    })
}

#[cfg(test)]
mod tests;
