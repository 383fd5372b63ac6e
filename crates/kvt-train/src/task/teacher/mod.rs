//! Teachers: what a student learns beside the labels.

mod fingerprint;
mod load;
mod logits;
mod network;

use std::path::PathBuf;

use burn::tensor::Tensor;

pub use fingerprint::Fingerprint;
pub(super) use load::teacher;
pub use logits::{LABELS, LOGITS, SavedLogits};
pub use network::TeacherNetwork;

/// Who says how much an image looks like each class.
#[derive(Clone, Debug)]
pub struct Teacher {
    /// A model, or what it has said before.
    pub kind: TeacherKind,
    /// Where it comes from.
    pub path: PathBuf,
    /// What it is recognised by when a run is resumed.
    pub fingerprint: Fingerprint,
}

/// A model, or what it has said before.
#[derive(Clone, Debug)]
pub enum TeacherKind {
    /// A model that looks at the images of each micro-batch.
    Network(Box<TeacherNetwork>),
    /// Logits by the index of the image.
    Logits(SavedLogits),
}

impl Teacher {
    /// The logits of a micro-batch, `[batch, classes]`, without a gradient: of its `images`, `[batch, 3, height, width]`
    /// as the student sees them, or of the images with these `indices` as they were.
    pub fn logits(&self, images: &Tensor<4>, indices: &[u32]) -> Tensor<2> {
        match &self.kind {
            TeacherKind::Network(network) => network.logits(images.clone().inner()),
            TeacherKind::Logits(logits) => logits.rows(indices, &images.device().inner()),
        }
        .autodiff()
    }
}

/// A teacher that does not fit the student.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeacherError {
    /// Other classes.
    #[error("it has {teacher} classes, but the data has {student}")]
    Classes {
        /// Classes of the teacher.
        teacher: usize,
        /// Classes of the data.
        student: usize,
    },
    /// As many classes, but others, or in another order.
    #[error("its class {number} is `{teacher}`, but the data's is `{student}`")]
    ClassNames {
        /// The label, from 0.
        number: usize,
        /// Its name in the teacher's run.
        teacher: String,
        /// Its name in the data.
        student: String,
    },
    /// Images of another kind.
    #[error("it takes images of {0} channels, but image folders give 3")]
    Channels(usize),
    /// Hard distillation without a head for it.
    #[error(
        "`distill.kind = \"hard\"` is learned by a distillation head, which `{model}` lacks: use a model whose name has \
         `distilled`, or `distill.kind = \"soft\"`"
    )]
    NoHead {
        /// The student.
        model: String,
    },
    /// A file without logits.
    #[error("it has no tensor `{LOGITS}`: `kvt logits --run RUN --output FILE` writes one")]
    NoLogits,
    /// Logits of other images.
    #[error(
        "its `{LOGITS}` have shape {found:?}, but the data wants [{images}, {classes}], training images and classes"
    )]
    Shape {
        /// The shape of the tensor.
        found: Vec<usize>,
        /// Training images.
        images: usize,
        /// Classes.
        classes: usize,
    },
    /// Logits that are no numbers.
    #[error("its `{LOGITS}` of image {image} are not finite numbers")]
    NotFinite {
        /// The index of the image.
        image: usize,
    },
    /// Logits of images in another order.
    #[error(
        "its image {image} has label {teacher}, but that of the data has {student}: the logits are of other images, or of \
         another order"
    )]
    Labels {
        /// The index of the image.
        image: usize,
        /// The label in the file.
        teacher: i64,
        /// The label in the data.
        student: u32,
    },
}

#[cfg(test)]
mod tests;
