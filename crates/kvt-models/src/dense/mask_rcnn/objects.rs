//! What is known of the images of a batch.

use kvt_ops::Object;

use crate::dense::boxes::{Corners, is_empty};

/// The objects of an image. Groups of objects ("crowds") are none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Height and width of the image as the network sees it, in pixels, without padding.
    pub size: [usize; 2],
    /// The objects.
    pub all: Vec<Object>,
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

/// Panics if sizes are not of each image of a batch `[images, _, height, width]`, or of an image that is larger than it or has no pixels.
pub(super) fn check_sizes(
    [images, _, height, width]: [usize; 4],
    sizes: impl ExactSizeIterator<Item = [usize; 2]>,
) {
    assert_eq!(sizes.len(), images, "as many sizes as images");
    for size in sizes {
        assert!(
            !size.contains(&0) && size[0] <= height && size[1] <= width,
            "an image of {size:?} pixels in a batch of {height} x {width}"
        );
    }
}

/// Panics if a network with so many classes cannot learn an object.
pub(super) fn check_objects(all: &[Objects], classes: usize) {
    for Object { corners, label, .. } in all.iter().flat_map(|objects| &objects.all) {
        assert!(*label < classes, "an object of class {label} of {classes}");
        assert!(!is_empty(corners), "an object without an area: {corners:?}");
    }
}
