//! A map of tokens cut into square windows, and put together again.

use burn::tensor::Tensor;
use kvt_ops::{RowOrder, reorder_rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of the zeros that fill up the windows at the right and bottom of a map, in dense networks. They are
/// added before the projection, so that each is a key and a value of its biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowPadding {
    /// It is attended to, and with k-NN attention it competes with tokens, as in Swin's official dense networks and
    /// in the official detection of Twins.
    #[default]
    Seen,
    /// It is never attended to, as in the official segmentation of Twins.
    Hidden,
}

impl WindowPadding {
    /// The name in configurations and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Hidden => "hidden",
        }
    }
}

/// The windows of a map: squares of tokens, row by row. A map that does not divide is padded at its right and bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Rows and columns of the map.
    pub map: [usize; 2],
    /// Tokens along a side of a window.
    pub side: usize,
    /// Whether the map is rolled by half a window before it is cut.
    pub shifted: bool,
    /// The backbone of a dense network, which pads a map before it is rolled, and how it treats padding.
    pub dense: Option<WindowPadding>,
}

impl Windows {
    /// Windows on a map that is not rolled.
    pub(crate) fn plain(map: [usize; 2], side: usize) -> Self {
        Self {
            map,
            side,
            shifted: false,
            dense: None,
        }
    }

    /// Tokens of a window.
    pub(crate) fn area(self) -> usize {
        self.side * self.side
    }

    /// Windows of a map.
    pub(crate) fn count(self) -> usize {
        self.along().iter().product()
    }

    /// Windows from top to bottom and from left to right.
    fn along(self) -> [usize; 2] {
        self.map.map(|size| size.div_ceil(self.side))
    }

    /// Rows and columns of the padded map.
    pub(crate) fn padded(self) -> [usize; 2] {
        self.along().map(|windows| windows * self.side)
    }

    /// How far the map is rolled up and to the left. A single window is not, except in dense networks.
    pub(crate) fn shift(self) -> [usize; 2] {
        self.map.map(|size| {
            if self.shifted && (self.side < size || self.dense.is_some()) {
                self.side / 2
            } else {
                0
            }
        })
    }

    /// Row and column of each token of the windows in the map that is cut, window by window.
    pub(crate) fn places(self) -> impl Iterator<Item = [usize; 2]> {
        let side = self.side;
        let tokens = move |window: [usize; 2]| {
            let [top, left] = window.map(|at| at * side);
            cells([side; 2]).map(move |[row, column]| [top + row, left + column])
        };
        cells(self.along()).flat_map(tokens)
    }

    /// The token of the map, counted row by row, at each of the [places](Self::places); `None` is padding.
    pub(crate) fn sources(self) -> impl Iterator<Item = Option<usize>> {
        let (map, shift, padded) = (self.map, self.shift(), self.padded());
        let whole = match self.dense {
            Some(_) => padded,
            None => map,
        };
        let [rows, columns] = [0, 1].map(|axis| {
            let sources = (0..padded[axis]).map(|place| {
                let rolled = (place + shift[axis]) % whole[axis];
                // What is not rolled is padding.
                (place < whole[axis] && rolled < map[axis]).then_some(rolled)
            });
            sources.collect::<Vec<_>>()
        });
        let places = self.places();
        places.map(move |[row, column]| Some(rows[row]? * map[1] + columns[column]?))
    }

    /// Rolls a map, pads it with zeros to whole windows, and cuts it. Dense networks pad before they roll.
    ///
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to `[batch, windows, area, dim]`.
    pub(crate) fn cut(self, map: Tensor<4>) -> Tensor<4> {
        let [batch, rows, columns, dim] = map.dims();
        let tokens = map.reshape([batch, rows * columns, dim]);
        reorder_rows(tokens, self.order()).reshape([batch, self.count(), self.area(), dim])
    }

    /// Puts the windows of [`cut`](Self::cut) together again, without the padding.
    ///
    /// # Shapes
    ///
    /// `[batch, windows, area, dim]` to `[batch, rows, columns, dim]`.
    pub(crate) fn join(self, windows: Tensor<4>) -> Tensor<4> {
        let ([batch, count, area, dim], [rows, columns]) = (windows.dims(), self.map);
        let tokens = windows.reshape([batch, count * area, dim]);
        reorder_rows(tokens, self.order().reversed()).reshape([batch, rows, columns, dim])
    }

    fn order(self) -> RowOrder {
        RowOrder::new(self.sources(), self.map.iter().product())
    }
}

/// Row and column of each cell of a grid, row by row.
fn cells([rows, columns]: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| [row, column]))
}
