//! What hides keys from queries in windows, for maps of any size.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::layers::Windows;

/// Sizes of maps whose masks are kept: two kinds of blocks, and two sizes.
const KEPT: usize = 4;

/// The masks of the windows of a map.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    /// Added to the scores of a shifted map, `[1, windows, 1, area * area]`.
    pub shift: Option<Tensor<4>>,
    /// `true` hides a key that is padding, `[1, windows, area, area]`.
    pub padding: Option<Tensor<4, Bool>>,
}

/// The masks of the last few sizes of maps, which the blocks of a stage share. A mask follows from the size alone, so
/// it is not saved.
#[derive(Clone, Debug, Default)]
pub(super) struct MaskCache(Arc<Mutex<Vec<(Windows, Device, Masks)>>>);

impl Masks {
    fn new(windows: Windows, device: &Device) -> Self {
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

impl MaskCache {
    /// The masks of the windows of a map.
    pub(super) fn of(&self, windows: Windows, device: &Device) -> Masks {
        if windows.shift() == [0; 2] && !windows.hides_padding() {
            return Masks::default();
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept
            .iter()
            .position(|(of, on, _)| *of == windows && on == device);
        let entry = match found {
            Some(place) => kept.remove(place),
            None => (windows, device.clone(), Masks::new(windows, device)),
        };
        let masks = entry.2.clone();
        kept.insert(0, entry);
        kept.truncate(KEPT);
        masks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::WindowPadding;

    #[test]
    fn the_last_few_sizes_are_kept() {
        let (device, cache) = (Device::flex(), MaskCache::default());
        let windows = Windows::dense(8, 4, WindowPadding::Hidden).shifted();
        let sizes = [[8, 8], [8, 9], [9, 8], [10, 10], [11, 9]];
        for size in sizes {
            let masks = cache.of(windows.on(size), &device);
            assert_eq!(masks.padding.is_some(), size != [8, 8], "{size:?}");
            assert!(masks.shift.is_some());
        }
        let kept = |cache: &MaskCache| {
            let kept = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().map(|(of, ..)| of.map).collect::<Vec<_>>()
        };
        assert_eq!(kept(&cache), [[11, 9], [10, 10], [9, 8], [8, 9]]);
        // One that is used again is the last.
        cache.of(windows.on([9, 8]), &device);
        assert_eq!(kept(&cache), [[9, 8], [11, 9], [10, 10], [8, 9]]);
    }
}
