//! Knowledge distillation: a network also learns from a teacher's outputs for the same images.
//!
//! Hinton et al., [*Distilling the Knowledge in a Neural Network*](https://arxiv.org/abs/1503.02531); hard distillation and
//! the distillation token: Touvron et al., [*DeiT*](https://arxiv.org/abs/2012.12877), whose `losses.py` this follows.

use std::path::PathBuf;

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use kvt_data::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// Learning from a teacher.
    pub struct DistillConfig {
        /// Whether, and what of the teacher is learned: its best class, or its whole distribution.
        pub kind: DistillKind = DistillKind::None;
        /// The teacher: the folder of a run, whose best weights are taken, or a file of weights or the name of
        /// published ones, which want `distill.teacher_model`. Relative to the working directory.
        pub teacher: Option<PathBuf> = None, "x-default" = "none", "x-resume" = "free";
        /// The model that a file of weights is for, by name; only with such a file.
        pub teacher_model: Option<String> = None, "x-default" = "none";
        /// Logits of the training images that a teacher has given before (`kvt logits --run`), instead of the teacher: a
        /// `.safetensors` file with `logits`, `[images, classes]`. They are of unchanged images, so nothing is mixed.
        pub logits: Option<PathBuf> = None, "x-default" = "none", "x-resume" = "free";
        /// Weight of the teacher; the labels have the rest.
        pub alpha: f64 = 0.5, "x-range" = "[0, 1]";
        /// Divides the logits of both before their softmax; only with `soft`.
        pub temperature: f64 = 1.0, "x-range" = "[1e-3, 1e3]";
        /// What the sum of the divergences is divided by: the images, or images times classes as DeiT does; only with
        /// `soft`.
        pub divisor: DistillDivisor = DistillDivisor::Batch;
    }
}

/// What is learned of the teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DistillKind {
    /// Nothing.
    None,
    /// Its best class, as if it were the label.
    Hard,
    /// Its distribution.
    Soft,
}

/// What the sum of the divergences is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DistillDivisor {
    /// The images.
    Batch,
    /// Images times classes: with 1,000 classes a thousandth of the usual loss.
    Legacy,
}

impl DistillConfig {
    /// `(1 - alpha) base + alpha distillation`, `[1]`, from the logits of student and teacher, `[batch, classes]` each.
    pub fn blend(&self, base: Tensor<1>, student: Tensor<2>, teacher: Tensor<2>) -> Tensor<1> {
        let distillation = match self.kind {
            DistillKind::None => return base,
            DistillKind::Hard => hard_distillation(student, teacher),
            DistillKind::Soft => {
                soft_distillation(student, teacher, self.temperature, self.divisor)
            }
        };
        base * (1.0 - self.alpha) + distillation * self.alpha
    }
}

/// Cross-entropy with the teacher's best class, without smoothing; the mean over the batch, `[1]`.
pub fn hard_distillation(student: Tensor<2>, teacher: Tensor<2>) -> Tensor<1> {
    let batch = student.dims()[0] as f64;
    let best = teacher.argmax(1);
    log_softmax(student, 1).gather(1, best).sum() * (-1.0 / batch)
}

/// `T^2 sum KL(softmax(teacher / T) || softmax(student / T))` over the divisor, `[1]`.
pub fn soft_distillation(
    student: Tensor<2>,
    teacher: Tensor<2>,
    temperature: f64,
    divisor: DistillDivisor,
) -> Tensor<1> {
    let [batch, classes] = student.dims();
    let divisor = match divisor {
        DistillDivisor::Batch => batch,
        DistillDivisor::Legacy => batch * classes,
    };
    let student = log_softmax(student / temperature, 1);
    let teacher = log_softmax(teacher / temperature, 1);
    let divergence = (teacher.clone().exp() * (teacher - student)).sum();
    divergence * (temperature * temperature / divisor as f64)
}

#[cfg(test)]
mod tests;
