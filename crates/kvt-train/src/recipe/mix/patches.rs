//! Random erasing on the device, for when images are mixed first.

use burn::tensor::{Tensor, TensorData};

use crate::augment::Patch;

/// Writes patches to images, `[n, channels, height, width]`; `patches` has one entry for each image. A later patch covers an
/// earlier one.
#[must_use]
pub fn write_patches(images: Tensor<4>, patches: &[Vec<Patch>]) -> Tensor<4> {
    if patches.iter().all(Vec::is_empty) {
        return images;
    }
    let device = images.device();
    let [count, channels, ..] = images.dims();
    let mut parts = Vec::new();
    let mut untouched = 0;
    // Image by image: an assignment to a slice of the batch may copy the whole batch.
    for (number, patches) in patches.iter().enumerate() {
        if patches.is_empty() {
            continue;
        }
        if untouched < number {
            parts.push(images.clone().narrow(0, untouched, number - untouched));
        }
        let mut image = images.clone().narrow(0, number, 1);
        for patch in patches {
            let (rows, columns) = (
                patch.top..patch.top + patch.height,
                patch.left..patch.left + patch.width,
            );
            let shape = [1, channels, patch.height, patch.width];
            let values = TensorData::new(patch.values.clone(), shape);
            image = image.slice_assign(
                [0..1, 0..channels, rows, columns],
                Tensor::from_data(values, &device),
            );
        }
        parts.push(image);
        untouched = number + 1;
    }
    if untouched < count {
        parts.push(images.narrow(0, untouched, count - untouched));
    }
    Tensor::cat(parts, 0)
}
