//! Teachers: a source of targets in addition to the labels.

mod fingerprint;
mod load;
mod logits;
mod network;

use std::path::PathBuf;

use burn::tensor::Tensor;

pub use fingerprint::Fingerprint;
pub(super) use load::teacher;
pub use logits::{LABELS, LOGITS, SavedLogits, origin};
pub use network::TeacherNetwork;

/// A source of logits for images.
#[derive(Clone, Debug)]
pub struct Teacher {
    /// A model, or its saved logits.
    pub kind: TeacherKind,
    /// Its origin.
    pub path: PathBuf,
    /// Identifies it when a run is resumed.
    pub fingerprint: Fingerprint,
}

/// A model, or its saved logits.
#[derive(Clone, Debug)]
pub enum TeacherKind {
    /// A model that is applied to the images of each micro-batch.
    Network(Box<TeacherNetwork>),
    /// Saved logits by the index of the image.
    Logits(SavedLogits),
}

impl Teacher {
    /// The logits of a micro-batch, `[batch, classes]`, without a gradient: for its `images`,
    /// `[batch, 3, height, width]` as the student gets them, or for the original images with these `indices`.
    pub fn logits(&self, images: &Tensor<4>, indices: &[u32]) -> Tensor<2> {
        match &self.kind {
            TeacherKind::Network(network) => network.logits(images.clone().inner()),
            TeacherKind::Logits(logits) => logits.rows(indices, &images.device().inner()),
        }
        .autodiff()
    }
}

/// Refuses classes of a teacher that are not those of the data, in their order.
fn same_classes(teacher: &[String], student: &[String]) -> Result<(), TeacherError> {
    if teacher.len() != student.len() {
        return Err(TeacherError::Classes {
            teacher: teacher.len(),
            student: student.len(),
        });
    }
    let mut pairs = teacher.iter().zip(student).enumerate();
    match pairs.find(|(_, (teacher, student))| teacher != student) {
        None => Ok(()),
        Some((number, (teacher, student))) => Err(TeacherError::ClassNames {
            number,
            teacher: teacher.clone(),
            student: student.clone(),
        }),
    }
}

/// A teacher that does not match the student.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeacherError {
    /// A different number of classes.
    #[error("it has {teacher} classes, but the data has {student}")]
    Classes {
        /// Classes of the teacher.
        teacher: usize,
        /// Classes of the data.
        student: usize,
    },
    /// The same number of classes, but different ones or in another order.
    #[error("its class {number} is `{teacher}`, but the data's is `{student}`")]
    ClassNames {
        /// The label, from 0.
        number: usize,
        /// Its name in the teacher's run.
        teacher: String,
        /// Its name in the data.
        student: String,
    },
    /// Other channels than the student's.
    #[error(
        "it takes images of {channels} channels, but the student {student}, by `model.in_chans`"
    )]
    Channels {
        /// Its channels.
        channels: usize,
        /// Those of the student.
        student: usize,
    },
    /// Hard distillation without a distillation head.
    #[error(
        "`distill.kind = \"hard\"` is learned by a distillation head, which `{0}` lacks: use a model whose name has \
         `distilled`, or `distill.kind = \"soft\"`"
    )]
    NoHead(String),
    /// A file without logits.
    #[error("it has no tensor `{LOGITS}`: `kvt logits --run RUN --output FILE` writes one")]
    NoLogits,
    /// Logits for other images.
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
    /// Logits that are not finite.
    #[error("its `{LOGITS}` of image {0} are not finite numbers")]
    NotFinite(usize),
    /// Logits for images of other names, or in another order.
    #[error(
        "its logits are of images of other names, or in another order, than those of the data: make them again with \
         `kvt logits --run RUN --set data.path=DATA`"
    )]
    Images,
    /// Logits for images in another order.
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
