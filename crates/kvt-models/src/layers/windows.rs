//! A map of tokens cut into square windows, and put together again.

use burn::tensor::ops::PadMode;
use burn::tensor::{Device, Tensor};
use kvt_ops::{RowOrder, reorder_rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of the zeros that fill up the windows at the right and bottom of a map, in dense networks. They are
/// added before the projection, so that each is a key and a value of its biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowPadding {
    /// It is attended to, and with k-NN attention it competes with tokens, as in Swin's official dense networks.
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

/// The windows of a map, row by row. A map that does not divide is padded at its right and bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Rows and columns of the map.
    pub map: [usize; 2],
    /// Tokens along a side of a window.
    pub side: usize,
}

impl Windows {
    /// Tokens of a window.
    pub(crate) fn area(self) -> usize {
        self.side * self.side
    }

    /// Windows of a map.
    pub(crate) fn count(self) -> usize {
        self.along().iter().product()
    }

    /// Windows from top to bottom and from left to right.
    pub(crate) fn along(self) -> [usize; 2] {
        self.map.map(|size| size.div_ceil(self.side))
    }

    /// Rows and columns of the padded map.
    pub(crate) fn padded(self) -> [usize; 2] {
        self.along().map(|windows| windows * self.side)
    }

    /// Pads a map with zeros to whole windows, and cuts it.
    ///
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to `[batch, windows, area, dim]`.
    pub(crate) fn cut(self, map: Tensor<4>) -> Tensor<4> {
        if is_cpu(&map) {
            return self.cut_in(self.order([0; 2], self.map), map);
        }
        let [batch, rows, columns, dim] = map.dims();
        let [padded_rows, padded_columns] = self.padded();
        let padded = pad(map, [padded_rows - rows, padded_columns - columns]);
        let ([down, right], side) = (self.along(), self.side);
        padded
            .reshape([batch, down, side, right, side, dim])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, self.count(), self.area(), dim])
    }

    /// Puts the windows of [`cut`](Self::cut) together again, without the padding.
    ///
    /// # Shapes
    ///
    /// `[batch, windows, area, dim]` to `[batch, rows, columns, dim]`.
    pub(crate) fn join(self, windows: Tensor<4>) -> Tensor<4> {
        if is_cpu(&windows) {
            return self.join_in(&self.order([0; 2], self.map), windows);
        }
        let [batch, _, _, dim] = windows.dims();
        let ([down, right], side) = (self.along(), self.side);
        let [rows, columns] = self.padded();
        let map = windows
            .reshape([batch, down, right, side, side, dim])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, rows, columns, dim]);
        crop(map, self.map)
    }

    /// Where the tokens of the map are in the windows, if the map is padded and a part of it, `whole`, is rolled up and to the left by
    /// `shift`.
    pub(crate) fn order(self, shift: [usize; 2], whole: [usize; 2]) -> RowOrder {
        let ([rows, columns], [_, right], side) = (self.map, self.along(), self.side);
        let source = |place: usize| {
            let (window, token) = (place / self.area(), place % self.area());
            let row = window / right * side + token / side;
            let column = window % right * side + token % side;
            // What is not rolled is padding.
            let rolled = |at: usize, axis: usize| {
                (at < whole[axis]).then(|| (at + shift[axis]) % whole[axis])
            };
            let (row, column) = (rolled(row, 0)?, rolled(column, 1)?);
            (row < rows && column < columns).then(|| row * columns + column)
        };
        let places = self.count() * self.area();
        RowOrder::new((0..places).map(source), rows * columns)
    }

    /// The windows of a map in an [`order`](Self::order).
    pub(crate) fn cut_in(self, order: RowOrder, map: Tensor<4>) -> Tensor<4> {
        let [batch, rows, columns, dim] = map.dims();
        let tokens = map.reshape([batch, rows * columns, dim]);
        reorder_rows(tokens, order).reshape([batch, self.count(), self.area(), dim])
    }

    /// The map of windows in an [`order`](Self::order).
    pub(crate) fn join_in(self, order: &RowOrder, windows: Tensor<4>) -> Tensor<4> {
        let ([batch, count, area, dim], [rows, columns]) = (windows.dims(), self.map);
        let tokens = windows.reshape([batch, count * area, dim]);
        reorder_rows(tokens, order.reversed()).reshape([batch, rows, columns, dim])
    }
}

/// Whether orders of rows are used: on CPUs they replace several copies on one thread.
pub(crate) fn is_cpu(map: &Tensor<4>) -> bool {
    map.device() == Device::flex()
}

/// The first rows and columns of a map.
///
/// # Shapes
///
/// `[batch, height, width, dim]` to `[batch, rows, columns, dim]`.
pub(crate) fn crop(map: Tensor<4>, [rows, columns]: [usize; 2]) -> Tensor<4> {
    if map.dims()[1..3] == [rows, columns] {
        return map;
    }
    map.narrow(1, 0, rows).narrow(2, 0, columns)
}

/// Adds rows and columns of zeros at the bottom and at the right of a map.
///
/// # Shapes
///
/// `[batch, height, width, dim]` to `[batch, height + rows, width + columns, dim]`.
pub(crate) fn pad(map: Tensor<4>, [rows, columns]: [usize; 2]) -> Tensor<4> {
    if [rows, columns] == [0, 0] {
        return map;
    }
    map.pad([(0, rows), (0, columns), (0, 0)], PadMode::Constant(0.0))
}
