//! A map of tokens cut into square windows, and put together again.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use kvt_ops::permute_reshape;
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
        let [batch, rows, columns, dim] = map.dims();
        let [padded_rows, padded_columns] = self.padded();
        let padded = pad(map, [padded_rows - rows, padded_columns - columns]);
        let ([down, right], side) = (self.along(), self.side);
        let cut = padded.reshape([batch, down, side, right, side, dim]);
        let shape = [batch, self.count(), self.area(), dim];
        permute_reshape(cut, [0, 1, 3, 2, 4, 5], shape)
    }

    /// Puts the windows of [`cut`](Self::cut) together again, without the padding.
    ///
    /// # Shapes
    ///
    /// `[batch, windows, area, dim]` to `[batch, rows, columns, dim]`.
    pub(crate) fn join(self, windows: Tensor<4>) -> Tensor<4> {
        let [batch, _, _, dim] = windows.dims();
        let ([down, right], side) = (self.along(), self.side);
        let [rows, columns] = self.padded();
        let windows = windows.reshape([batch, down, right, side, side, dim]);
        let map = permute_reshape(windows, [0, 1, 3, 2, 4, 5], [batch, rows, columns, dim]);
        crop(map, self.map)
    }
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
