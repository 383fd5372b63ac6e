//! The features that are probed: of a backbone, or the pixels themselves.

use burn::tensor::Tensor;
use kvt_models::{Ask, Backbone, Model};
use kvt_ops::{Phase, on_pool};

/// How an image becomes a row of features.
#[derive(Clone, Debug)]
pub enum Extractor {
    /// A backbone's class tokens, or means of tokens if it has none.
    Backbone {
        /// The model, on a device without autodiff; its head is not used.
        model: Box<Model>,
        /// How many of the last blocks: 1 is only the output. The features of several blocks are concatenated, each after the final norm.
        blocks: usize,
        /// Whether to append the mean of the patches.
        avgpool: bool,
    },
    /// The normalised pixels.
    Pixels,
}

impl Extractor {
    /// `[batch, 3, height, width]` to `[batch, dim]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<2> {
        match self {
            Self::Pixels => images.flatten(1, 3),
            Self::Backbone {
                model,
                blocks,
                avgpool,
            } => {
                let device = images.device();
                let features = on_pool(&device, || {
                    let ask = Ask {
                        blocks: if *blocks > 1 { *blocks } else { 0 },
                        precision: model.precision(),
                        ..Ask::default()
                    };
                    model.backbone.features(images, &ask, Phase::Eval)
                });
                let mut parts = features.pooled_blocks();
                if parts.is_empty() {
                    parts.push(features.pooled());
                }
                parts.extend(features.mean_of_patches().filter(|_| *avgpool));
                Tensor::cat(parts, 1)
            }
        }
    }
}
