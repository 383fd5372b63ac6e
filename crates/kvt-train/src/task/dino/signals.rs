//! Statistics of an update: entropy of the teacher, spread of centre and features, and whether they have collapsed.

use burn::tensor::Tensor;

use super::{DinoConfig, GLOBAL_VIEWS};
use crate::knn_vote::normalized;
use crate::run::Metrics;
use crate::task::Signals;

/// The teacher's outputs for an update's last micro-batch, without autodiff graphs.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The teacher's distribution, `[2 * batch, out_dim]`.
    pub(super) probabilities: Tensor<2>,
    /// The teacher's features, `[2 * batch, features]`.
    pub(super) features: Tensor<2>,
}

impl Seen {
    /// Number of images of the micro-batch.
    pub(super) fn images(&self) -> usize {
        self.features.dims()[0] / GLOBAL_VIEWS
    }

    /// The input of [`Numbers::new`], on the device.
    pub(super) fn numbers(&self, centre: &Tensor<1>) -> Tensor<1> {
        let entropy = |p: Tensor<2>| {
            let log = p.clone().clamp_min(f64::from(f32::MIN_POSITIVE)).log();
            (p * log).sum_dim(1).mean().neg()
        };
        let p = &self.probabilities;
        // Only one view: two views of an image also differ by their crops.
        let view = self.features.clone().narrow(0, 0, self.images().max(1));
        Tensor::cat(
            vec![
                entropy(p.clone()),
                entropy(p.clone().mean_dim(0)),
                centre.clone().var_bias(0).mean().sqrt(),
                feature_std(view),
            ],
            0,
        )
    }
}

/// Minimum number of images per micro-batch to detect a collapse: a single image is always like itself.
const LEAST_IMAGES: usize = 2;

/// The statistics of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Number of images.
    pub(super) images: usize,
    /// Mean entropy of the teacher's distribution for an image, in nats: the logarithm of the number of outputs if it is uniform.
    pub(super) entropy: f64,
    /// Entropy of its mean distribution over all images.
    pub(super) entropy_of_mean: f64,
    /// Standard deviation of the centre over the outputs.
    pub(super) centre_std: f64,
    /// Standard deviation over the images of features scaled to length 1, times the root of their dimension: 0 if all images have
    /// the same features, 1 if they point in all directions.
    pub(super) feature_std: f64,
}

impl Numbers {
    /// For `images` images, from the result of [`Seen::numbers`].
    pub(super) fn new(images: usize, numbers: &[f64]) -> Self {
        let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
        Self {
            images,
            entropy: at(0),
            entropy_of_mean: at(1),
            centre_std: at(2),
            feature_std: at(3),
        }
    }

    /// The kind of a collapse, and what to change; `None` for a single image.
    pub(super) fn collapse(&self, config: &DinoConfig) -> Option<String> {
        if self.images < LEAST_IMAGES {
            return None;
        }
        // That of a uniform distribution.
        let largest = (config.out_dim as f64).ln();
        let Self {
            entropy,
            entropy_of_mean,
            feature_std,
            ..
        } = *self;
        let numbers = format!(
            "entropy of the teacher {entropy:.3} of at most {largest:.3}, of its mean {entropy_of_mean:.3}, standard deviation of the \
             features {feature_std:.4}"
        );
        if entropy_of_mean < 0.01 * largest {
            return Some(format!(
                "the teacher has collapsed to one output, the same for every image ({numbers}): lower `dino.center_momentum`, raise \
                 `dino.teacher_temp`, or set `dino.norm_last_layer = true`"
            ));
        }
        if entropy > 0.9999 * largest {
            return Some(format!(
                "the teacher has collapsed to the uniform distribution, which says nothing ({numbers}): lower `dino.teacher_temp` and \
                 `dino.warmup_teacher_temp`, or raise `optim.lr`"
            ));
        }
        if feature_std < 0.01 {
            return Some(format!(
                "the features have collapsed: they are the same for every image ({numbers}): lower `optim.lr`, lengthen \
                 `schedule.warmup_epochs`, clip with `optim.clip_parameter`, or raise `dino.momentum_teacher`"
            ));
        }
        None
    }

    /// In the format of a task.
    pub(super) fn signals(self, warning: Option<String>) -> Signals {
        Signals {
            metrics: Metrics::from([
                ("teacher_entropy", self.entropy),
                ("centre_std", self.centre_std),
                ("feature_std", self.feature_std),
            ]),
            warning,
        }
    }
}

/// See [`Numbers::feature_std`], `[1]`.
pub(super) fn feature_std(features: Tensor<2>) -> Tensor<1> {
    let dim = features.dims()[1] as f64;
    let features = normalized(features);
    let mean = features.clone().mean_dim(0);
    let variance = (features - mean).square().mean_dim(0);
    variance.sqrt().mean() * dim.sqrt()
}
