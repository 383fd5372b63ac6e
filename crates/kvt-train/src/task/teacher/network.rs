//! A model as a teacher.

use burn::tensor::Tensor;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use kvt_models::Model;
use kvt_ops::Phase;

use super::TeacherError;
use crate::augment::Normalization;

/// A model in evaluation mode, without gradients, with the conversion of the student's images.
#[derive(Clone, Debug)]
pub struct TeacherNetwork {
    model: Model,
    /// The normalisation of the student's images.
    student: Normalization,
    /// The teacher's own normalisation.
    own: Normalization,
}

impl TeacherNetwork {
    /// A model on a device without autodiff.
    ///
    /// # Errors
    /// If it takes images of other channels than the student.
    pub fn new(
        model: Model,
        own: Normalization,
        student: Normalization,
    ) -> Result<Self, TeacherError> {
        let channels = model.config().in_chans();
        if channels != student.mean.len() || channels != own.mean.len() {
            let student = student.mean.len();
            return Err(TeacherError::Channels { channels, student });
        }
        Ok(Self {
            model,
            student,
            own,
        })
    }

    /// The logits for a student's images, `[batch, channels, height, width]`, converted to the teacher's normalisation and
    /// resized bilinearly to its size; `[batch, classes]`.
    pub(super) fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        let images = self.student.convert(&self.own, images);
        let size = self.model.config().img_size();
        let images = resized(images, [size.height, size.width]);
        self.model.forward(images, Phase::Eval)
    }
}

/// Resizes images to another size (height, width): PyTorch's `interpolate(mode="bilinear")`, without antialiasing.
pub(super) fn resized(images: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let [_, _, height, width] = images.dims();
    if [height, width] == size {
        return images;
    }
    let options = InterpolateOptions::new(InterpolateMode::Bilinear)
        .with_align_corners(false)
        .with_output_size(size);
    interpolate(images, options)
}
