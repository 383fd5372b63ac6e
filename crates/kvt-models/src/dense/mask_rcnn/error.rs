//! Errors of Mask R-CNN.

use burn::tensor::TensorReadError;

/// Objects or images that do not fit the network, or a device that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MaskRcnnError {
    /// The device could not be read.
    #[error("the device failed: {0}")]
    Device(String),
    /// What is known of the images is not of as many images as there are.
    #[error("a batch of {images} images, but what is known is of {given}")]
    Images {
        /// Images of the batch.
        images: usize,
        /// Images that something is known of.
        given: usize,
    },
    /// An image that is larger than its batch, or has no pixels.
    #[error(
        "image {image} of the batch is said to have {size:?} pixels, but the batch has {batch:?}"
    )]
    Size {
        /// Its place in the batch.
        image: usize,
        /// Its height and width.
        size: [usize; 2],
        /// Height and width of the batch.
        batch: [usize; 2],
    },
    /// A label that is not one of the classes.
    #[error("image {image} of the batch has an object of class {label}, but there are {classes}")]
    Label {
        /// Its place in the batch.
        image: usize,
        /// The label.
        label: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A box without an area, of which no difference to another can be told.
    #[error("image {image} of the batch has an object without an area: {corners:?}")]
    NoArea {
        /// Its place in the batch.
        image: usize,
        /// The box.
        corners: [f32; 4],
    },
}

/// A failed read, as text: its source cannot be compared.
impl From<TensorReadError> for MaskRcnnError {
    fn from(error: TensorReadError) -> Self {
        Self::Device(error.to_string())
    }
}
