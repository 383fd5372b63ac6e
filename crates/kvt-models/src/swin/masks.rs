//! What hides keys from queries in windows, for maps of any size.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::layers::{Recent, Windows};

/// The masks of the windows of a map.
#[derive(Clone, Debug)]
pub(super) struct Masks {
    /// Added to the scores of a shifted map, `[1, windows, 1, area * area]`.
    pub shift: Option<Tensor<4>>,
    /// `true` hides a key that is padding, `[1, windows, area, area]`.
    pub padding: Option<Tensor<4, Bool>>,
}

/// The masks that the blocks of a stage share.
pub(super) type MaskCache = Recent<Windows, Masks>;

impl Masks {
    /// The masks of the windows of a map.
    pub(super) fn new(windows: Windows, device: &Device) -> Self {
        let (count, area) = (windows.count(), windows.area());
        let shift = windows.shift_mask().map(|mask| {
            let mask = TensorData::new(mask, [1, count, 1, area.pow(2)]);
            Tensor::from_data(mask, device)
        });
        let padding = windows.hidden_padding().map(|hidden| {
            let hidden = TensorData::new(hidden, [1, count, area, area]);
            Tensor::from_data(hidden, device)
        });
        Self { shift, padding }
    }
}
