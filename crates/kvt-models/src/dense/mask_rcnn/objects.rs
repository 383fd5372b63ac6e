//! What is known of the images of a batch.

use super::bitmap::Bitmap;
use super::error::MaskRcnnError;
use crate::dense::boxes::{Corners, is_empty};

/// The objects of an image. Groups of objects ("crowds") are none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Height and width of the image as the network sees it, in pixels, without padding.
    pub size: [usize; 2],
    /// The objects.
    pub all: Vec<Object>,
}

/// An object of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its box in pixels of the image as the network sees it, inside of it and with an area.
    pub corners: Corners,
    /// Its class, from 0.
    pub label: usize,
    /// Its pixels in the image as the network sees it.
    pub mask: Bitmap,
}

impl Objects {
    /// The box of each object.
    pub(super) fn boxes(&self) -> Vec<Corners> {
        self.all.iter().map(|object| object.corners).collect()
    }
}

/// The sizes of an image in which objects are to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Height and width of the image as the network sees it, in pixels, without padding.
    pub size: [usize; 2],
    /// Height and width of the original image, in pixels.
    pub original: [usize; 2],
}

/// Refuses sizes of another number of images, or of images larger than their batch `[images, _, height, width]`.
pub(super) fn check_sizes(
    [images, _, height, width]: [usize; 4],
    sizes: impl ExactSizeIterator<Item = [usize; 2]>,
) -> Result<(), MaskRcnnError> {
    let given = sizes.len();
    if given != images {
        return Err(MaskRcnnError::Images { images, given });
    }
    let batch = [height, width];
    let fits = |size: [usize; 2]| !size.contains(&0) && size[0] <= height && size[1] <= width;
    match sizes.enumerate().find(|(_, size)| !fits(*size)) {
        Some((image, size)) => Err(MaskRcnnError::Size { image, size, batch }),
        None => Ok(()),
    }
}

/// Refuses objects that a network with so many classes cannot learn.
pub(super) fn check_objects(all: &[Objects], classes: usize) -> Result<(), MaskRcnnError> {
    for (image, objects) in all.iter().enumerate() {
        for &Object { corners, label, .. } in &objects.all {
            if label >= classes {
                return Err(MaskRcnnError::Label {
                    image,
                    label,
                    classes,
                });
            }
            if is_empty(&corners) {
                return Err(MaskRcnnError::NoArea { image, corners });
            }
        }
    }
    Ok(())
}
