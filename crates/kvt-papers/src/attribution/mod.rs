//! Which patches of an image support a class: Transformer Attribution
//! ([Chefer, Gur and Wolf, 2021](https://arxiv.org/abs/2012.09838)), as its authors' code computes it.
//!
//! The rules in `rules.rs` propagate the relevance of the class from the logit back to the attention of each block. There it is
//! multiplied by the gradient of the logit, the positive part is averaged over the heads, and the maps of the blocks are
//! multiplied. The method is defined for a ViT with a class token and softmax attention: a DeiT without distillation token, dense
//! or k-NN.

mod back;
mod error;
mod forward;
mod picture;
mod rules;
mod weights;

use burn::tensor::Tensor;
use kvt_models::vit::VitConfig;
use kvt_models::{Model, ModelConfig};

pub use error::AttributionError;
pub use picture::{NOTE, said};

use self::back::relevance;
use self::forward::Forward;
use self::weights::Weights;
use kvt_train::judge::{best, likely};
use kvt_train::knn_vote::read;

/// How much each patch of an image supports a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// The class.
    pub class: usize,
    /// The logits of the image.
    pub logits: Vec<f32>,
    /// Rows and columns of patches.
    pub grid: [usize; 2],
    /// The relevance of each patch, row by row, 0 or more.
    pub patches: Vec<f64>,
    /// The relevance and the gradient of each block's attention weights, `[head, query, key]`.
    pub blocks: Vec<BlockAttribution>,
    /// Whether each class has a probability of its own, because an image may have several labels.
    pub has_labels: bool,
}

impl Attribution {
    /// The probability of the class: by the softmax of all logits, or [of labels](Self::has_labels) by the sigmoid of its own.
    pub fn probability(&self) -> f64 {
        let count = self.logits.len();
        let all = if self.has_labels {
            likely(&self.logits, None, count)
        } else {
            best(&self.logits, None, count)
        };
        let number = self.class.to_string();
        let own = all.iter().find(|guess| guess.class == number);
        own.map_or(f64::NAN, |guess| guess.probability)
    }

    /// The smallest share of the patches whose relevance adds up to at least half of the total.
    pub fn half(&self) -> f64 {
        let mut sorted = self.patches.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let half = sorted.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let enough = sorted.iter().take_while(|patch| {
            let goes_on = sum < half;
            sum += **patch;
            goes_on
        });
        enough.count() as f64 / self.patches.len().max(1) as f64
    }
}

/// The attribution of one block's attention.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockAttribution {
    /// Relevance of the attention weights, `[head, query, key]`: 0 where a key is not kept.
    pub relevance: Vec<f32>,
    /// Gradient of the logit with respect to the attention weights, `[head, query, key]`, each treated as an independent variable.
    pub gradient: Vec<f32>,
}

/// The configuration of a model for which the rules define how relevance propagates.
///
/// # Errors
/// If the model is not a DeiT, is distilled, or does not use softmax attention.
pub fn check(model: &Model) -> Result<VitConfig, AttributionError> {
    let config = model.config();
    let name = config.name();
    let reason = match config {
        ModelConfig::Vit(vit) if vit.is_deit() && vit.distilled => {
            "it predicts from two tokens, but the rules support one; use a DeiT without distillation token".to_owned()
        }
        ModelConfig::Vit(vit) if vit.is_deit() && !vit.attention.is_softmax() => format!(
            "its rules need the attention weights of a softmax, which `dense` and `knn` have, and `{}` attention has not",
            vit.attention.kind()
        ),
        ModelConfig::Vit(vit) if vit.is_deit() => return Ok(vit),
        _ => "its rules are for a ViT with a class token in all blocks; take a DeiT, or `kvt attention-map`, which needs only \
              attention weights"
            .to_owned(),
    };
    Err(AttributionError::Undefined { name, reason })
}

/// Attributes a class to the patches of an image; by default the class with the largest logit.
///
/// Everything is computed in f32 on the model's device, one image at a time: the rule for sums divides relevance by sums over all
/// tokens, so a batch would mix images.
///
/// # Shapes
/// `image`: `[1, 3, height, width]`, of any size that the model takes, on the device of the model without autodiff.
///
/// # Errors
/// If the model is refused by [`check`], has no such class, or the device fails.
pub fn attribute(
    model: &Model,
    image: Tensor<4>,
    class: Option<usize>,
) -> Result<Attribution, AttributionError> {
    let config = check(model)?;
    let [_, _, height, width] = image.dims();
    let side = config.patch_size.max(1);
    let grid = [height / side, width / side];
    let weights = Weights::of(model, image.device())?;
    let forward = Forward::run(model, &config, &weights, image)?;
    let logits = read(forward.logits.clone().inner())?;
    let class = match class {
        Some(class) if class < logits.len() => class,
        Some(class) => {
            let classes = logits.len();
            return Err(AttributionError::Class { class, classes });
        }
        None => {
            // Of equal ones the first.
            let classes = (0..logits.len()).rev();
            let largest = classes.max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            largest.unwrap_or(0)
        }
    };
    let gradients = forward.gradients(class)?;
    let relevance = relevance(&forward, &weights, class)?;
    let mut rollout: Option<Tensor<2>> = None;
    let mut blocks = Vec::new();
    for (relevance, gradient) in relevance.into_iter().zip(gradients) {
        let [_, queries, keys] = relevance.dims();
        let positive = (relevance.clone() * gradient.clone()).clamp_min(0.0);
        let mean = positive.mean_dim(0).reshape([queries, keys]);
        let device = mean.device();
        // The identity is the residual connection.
        let map = mean + Tensor::eye(keys, &device);
        rollout = Some(match rollout {
            Some(before) => map.matmul(before),
            None => map,
        });
        blocks.push(BlockAttribution {
            relevance: read(relevance)?,
            gradient: read(gradient)?,
        });
    }
    let patches = match rollout {
        Some(rollout) => {
            let tokens = rollout.dims()[1];
            read(rollout.narrow(0, 0, 1).narrow(1, 1, tokens - 1))?
        }
        None => Vec::new(),
    };
    Ok(Attribution {
        class,
        logits,
        grid,
        patches: patches.into_iter().map(f64::from).collect(),
        blocks,
        has_labels: false,
    })
}
