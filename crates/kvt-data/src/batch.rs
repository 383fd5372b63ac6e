//! A batch on the host: the views of some images, their targets, and their indices.

use image::RgbImage;
use kvt_ops::Key;

use crate::augment::{AugmentError, Transform};

/// Pixels of all images of a batch, prepared in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Normalised pixels, `[n, 3, height, width]`.
    pub pixels: Vec<f32>,
    /// Height and width of each image, in pixels.
    pub size: (usize, usize),
}

/// Images on the host. Classification has one view of each image; self-supervised training has many, of several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<T = u32> {
    /// The views, each of all `n` images in the same order.
    pub views: Vec<View>,
    /// The target of each image, `[n]`: its class, unless a task uses something else.
    pub targets: Vec<T>,
    /// Index of each image in [`Source::samples`](crate::Source::samples), `[n]`.
    pub indices: Vec<u32>,
}

impl View {
    /// A single image, transformed with the draws of `key`. A transform for evaluation draws nothing: any key will do.
    ///
    /// # Errors
    /// If the image cannot be transformed.
    pub fn of(image: RgbImage, transform: &Transform, key: Key) -> Result<Self, AugmentError> {
        let mut view = Self::zeros(1, transform.size());
        transform.apply(image, key, view.image_mut(0))?;
        Ok(view)
    }

    /// `images` images of `size` (height, width), all zeros.
    pub fn zeros(images: usize, size: (usize, usize)) -> Self {
        Self {
            pixels: vec![0.0; images * 3 * size.0 * size.1],
            size,
        }
    }

    /// The shape of its tensor, `[n, 3, height, width]`.
    pub fn shape(&self) -> [usize; 4] {
        let (height, width) = self.size;
        let images = self.pixels.len() / self.image_len().max(1);
        [images, 3, height, width]
    }

    /// The pixels of image `n`; empty if there is none.
    pub fn image_mut(&mut self, n: usize) -> &mut [f32] {
        let len = self.image_len();
        self.pixels
            .get_mut(n * len..(n + 1) * len)
            .unwrap_or_default()
    }

    /// Keeps the first `images` images.
    pub fn truncate(&mut self, images: usize) {
        self.pixels.truncate(images * self.image_len());
    }

    /// Numbers per image.
    fn image_len(&self) -> usize {
        3 * self.size.0 * self.size.1
    }
}

impl<T> Batch<T> {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether it contains no images.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}
