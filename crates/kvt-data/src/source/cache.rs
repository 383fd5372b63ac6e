//! Decoded images that are kept in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use image::{GrayImage, RgbImage};

use crate::raster::Raster;

/// The images of a source that were decoded while there was space, by index. Images are never evicted: with less space
/// than images, replacing one by the next would discard all of them before they are needed again.
#[derive(Debug)]
pub(super) struct Cache {
    images: Box<[OnceLock<Raster>]>,
    /// Bytes that are still available.
    left: Arc<AtomicU64>,
}

impl Cache {
    pub(super) fn new(images: usize, left: Arc<AtomicU64>) -> Self {
        Self {
            images: (0..images).map(|_| OnceLock::new()).collect(),
            left,
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Raster> {
        self.images.get(index as usize)?.get()
    }

    /// Keeps a copy of an image if there is space.
    pub(super) fn keep(&self, index: u32, rgb: &RgbImage, alpha: Option<&GrayImage>) {
        let bytes = (rgb.as_raw().len() + alpha.map_or(0, |alpha| alpha.as_raw().len())) as u64;
        let Some(slot) = self.images.get(index as usize) else {
            return;
        };
        let take = |left: u64| left.checked_sub(bytes);
        let order = Ordering::Relaxed;
        if slot.get().is_some() || self.left.fetch_update(order, order, take).is_err() {
            return;
        }
        let (rgb, alpha) = (rgb.clone(), alpha.cloned());
        if slot.set(Raster { rgb, alpha }).is_err() {
            // Another worker stored the image first.
            self.left.fetch_add(bytes, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_kept_while_there_is_room() {
        let left = Arc::new(AtomicU64::new(30));
        let cache = Cache::new(3, Arc::clone(&left));
        let image = |level| RgbImage::from_pixel(2, 2, image::Rgb([level; 3]));
        for index in [1, 1, 0, 2] {
            cache.keep(index, &image(index as u8), None);
        }
        let get = |index| cache.get(index).map(|image| &image.rgb);
        assert_eq!(get(1), Some(&image(1)));
        assert_eq!(get(0), Some(&image(0)));
        assert_eq!((get(2), get(9)), (None, None));
        assert_eq!(left.load(Ordering::Relaxed), 6);
    }
}
