//! A batch on the host: the views of some images, their targets, and their indices.

use kvt_ops::Key;

use crate::augment::{AugmentError, Transform};
use crate::raster::Raster;

/// An image prepared for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Normalised pixels, `[channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Height and width in pixels.
    pub size: (usize, usize),
}

/// Pixels of all images of a batch, prepared in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Normalised pixels, `[n, channels, height, width]`; zeros around an image that is smaller.
    pub pixels: Vec<f32>,
    /// Number of channels: 1, 3 or 4.
    pub channels: usize,
    /// Height and width of the batch, in pixels.
    pub size: (usize, usize),
    /// Height and width of each image, `[n]`: its pixels are at the top left.
    pub valid: Vec<[usize; 2]>,
}

/// Images on the host. Classification has one view of each image; self-supervised training has many, of several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<T = u32, V = View> {
    /// The views, each of all `n` images in the same order.
    pub views: Vec<V>,
    /// The target of each image, `[n]`: its class, unless a task uses something else.
    pub targets: Vec<T>,
    /// Index of each image in [`Source::samples`](crate::Source::samples), `[n]`.
    pub indices: Vec<u32>,
}

impl Image {
    /// Writes the image at the top left of one of `size` (height, width), which is at least as large.
    pub(crate) fn write_into(&self, out: &mut [f32], (height, width): (usize, usize)) {
        let (rows, columns) = self.size;
        let planes = out.chunks_exact_mut((height * width).max(1));
        for (plane, own) in planes.zip(self.pixels.chunks_exact((rows * columns).max(1))) {
            let lines = plane.chunks_exact_mut(width.max(1));
            for (line, own) in lines.zip(own.chunks_exact(columns.max(1))) {
                line.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// Zeros of `size` (height, width).
    pub(crate) fn zeros(size: (usize, usize), channels: usize) -> Self {
        Self {
            pixels: vec![0.0; channels * size.0 * size.1],
            size,
        }
    }

    /// Number of channels.
    pub(crate) fn channels(&self) -> usize {
        self.pixels.len() / (self.size.0 * self.size.1).max(1)
    }
}

impl View {
    /// A single image, transformed with the draws of `key`. A transform for evaluation draws nothing: any key will do.
    ///
    /// # Errors
    /// If the image cannot be transformed.
    pub fn of(
        image: impl Into<Raster>,
        transform: &Transform,
        key: Key,
    ) -> Result<Self, AugmentError> {
        let image = transform.apply(image, key)?;
        Ok(Self::whole(image.pixels, transform.channels(), image.size))
    }

    /// Images of one size (height, width), from the pixels of all, `[n, channels, height, width]`.
    pub fn whole(pixels: Vec<f32>, channels: usize, size: (usize, usize)) -> Self {
        let images = pixels.len() / (channels * size.0 * size.1).max(1);
        Self {
            pixels,
            channels,
            size,
            valid: vec![size.into(); images],
        }
    }

    /// Images of any sizes, with zeros at the right and bottom up to the largest one, rounded up to a multiple of `pad_to`.
    pub fn stack(images: Vec<Image>, pad_to: usize) -> Self {
        let largest = |side: fn(&Image) -> usize| {
            let sides = images.iter().map(side);
            sides.max().unwrap_or(0).next_multiple_of(pad_to.max(1))
        };
        let (height, width) = (largest(|image| image.size.0), largest(|image| image.size.1));
        let channels = images.first().map_or(3, Image::channels);
        let mut view = Self {
            pixels: vec![0.0; images.len() * channels * height * width],
            channels,
            size: (height, width),
            valid: images.iter().map(|image| image.size.into()).collect(),
        };
        let places = view
            .pixels
            .chunks_exact_mut((channels * height * width).max(1));
        // Each image is freed once it is copied: a batch can take hundreds of megabytes.
        for (place, image) in places.zip(images) {
            image.write_into(place, (height, width));
        }
        view
    }

    /// The shape of its tensor, `[n, channels, height, width]`.
    pub fn shape(&self) -> [usize; 4] {
        [self.valid.len(), self.channels, self.size.0, self.size.1]
    }
}

impl<T, V> Batch<T, V> {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether it contains no images.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}
