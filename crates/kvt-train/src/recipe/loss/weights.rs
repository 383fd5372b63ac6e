//! Weights of classes in the cross-entropy, as PyTorch's `CrossEntropyLoss(weight=...)` has them.

use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much the images of a class count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassWeights {
    /// As much as any other.
    None,
    /// By the inverse of the number of its training images: images / (classes x images of the class).
    Inverse,
    /// As given, in the order of the classes.
    #[serde(untagged)]
    Each(#[schemars(length(min = 1))] Vec<f64>),
}

impl ClassWeights {
    /// The weight of each class, for classes with these numbers of training images; `None` if all count the same.
    pub fn of(&self, counts: &[usize]) -> Option<Vec<f32>> {
        match self {
            Self::None => None,
            Self::Inverse => {
                let all = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
                // A class that a subset has lost is never seen.
                let weight = |&count: &usize| (all / count.max(1) as f64) as f32;
                Some(counts.iter().map(weight).collect())
            }
            Self::Each(weights) => Some(weights.iter().map(|&weight| weight as f32).collect()),
        }
    }
}

/// Targets with which [`cross_entropy`](super::cross_entropy) is weighted: the part of each class, times its weight. PyTorch divides the sum
/// over a batch by the weights of the `labels`, but by the number of images where targets are shares of several classes, as those of mixed
/// images are.
///
/// # Shapes
/// `targets`: `[batch, classes]`, as the result; a label for each image, a weight for each class.
pub fn weighted_targets(
    targets: Tensor<2>,
    labels: &[u32],
    are_mixed: bool,
    weights: &[f32],
) -> Tensor<2> {
    let own = labels.iter().map(|&label| weights.get(label as usize));
    let sum: f64 = own.flatten().map(|&weight| f64::from(weight)).sum();
    let scale = if are_mixed {
        1.0
    } else {
        labels.len() as f64 / sum
    };
    let weights = TensorData::new(weights.to_vec(), [1, weights.len()]);
    let weights = Tensor::from_data(weights, &targets.device());
    targets * weights * scale
}
