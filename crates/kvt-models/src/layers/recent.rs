//! What is made for a size of maps, kept for the last few sizes.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;

/// How many are kept: for two kinds of blocks, and two sizes, as DINO's crops have them.
const KEPT: usize = 4;

/// What was made for the last few sizes of maps, each on its device. It follows from the size alone, so it is not saved. Clones
/// share it.
#[derive(Clone, Debug)]
pub(crate) struct Recent<K, V>(Arc<Mutex<Vec<(K, Device, V)>>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    /// What belongs to a size; `make` makes it if it is not kept.
    pub(crate) fn of(&self, size: K, device: &Device, make: impl FnOnce() -> V) -> V {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept
            .iter()
            .position(|(of, on, _)| *of == size && on == device);
        let entry = match found {
            Some(place) => kept.remove(place),
            None => (size, device.clone(), make()),
        };
        let value = entry.2.clone();
        kept.insert(0, entry);
        kept.truncate(KEPT);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_sizes_are_kept() {
        let (device, cache) = (Device::flex(), Recent::default());
        let mut made = Vec::new();
        // The first is used again before one is dropped, which is the second.
        for size in [1, 2, 3, 4, 1, 5, 2, 1] {
            let value = cache.of(size, &device, || {
                made.push(size);
                10 * size
            });
            assert_eq!(value, 10 * size);
        }
        assert_eq!(made, [1, 2, 3, 4, 5, 2]);
    }
}
