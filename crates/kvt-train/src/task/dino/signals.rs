//! How an update went: entropy of the teacher, spread of centre and features, and whether they have collapsed.

use burn::tensor::Tensor;

use super::head::normalized;
use super::{DinoConfig, GLOBAL_VIEWS};
use crate::run::Metrics;
use crate::task::Signals;

/// What was seen of an update's last micro-batch, without graphs.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// What the teacher said, `[2 * batch, out_dim]`.
    pub(super) probabilities: Tensor<2>,
    /// The teacher's features, `[2 * batch, features]`.
    pub(super) features: Tensor<2>,
}

impl Seen {
    /// The images of the micro-batch.
    pub(super) fn images(&self) -> usize {
        self.features.dims()[0] / GLOBAL_VIEWS
    }

    /// What [`Numbers::new`] takes, on the device.
    pub(super) fn numbers(&self, centre: &Tensor<1>) -> Tensor<1> {
        let entropy = |p: Tensor<2>| {
            let log = p.clone().clamp_min(f64::from(f32::MIN_POSITIVE)).log();
            (p * log).sum_dim(1).mean().neg()
        };
        let p = &self.probabilities;
        // One view: two views of an image differ by their crops as well.
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

/// Images of a micro-batch below which nothing is said of a collapse: one image is like itself.
const LEAST_IMAGES: usize = 2;

/// The numbers of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Images that they are of.
    pub(super) images: usize,
    /// Mean entropy of what the teacher says of an image, in nats: the logarithm of the number of outputs where it says nothing.
    pub(super) entropy: f64,
    /// Entropy of what it says of all images together.
    pub(super) entropy_of_mean: f64,
    /// Standard deviation of the centre over the outputs.
    pub(super) centre_std: f64,
    /// Standard deviation of features of length 1 over the images, times the root of their number: 0 where all images have the same
    /// features, 1 where they point everywhere.
    pub(super) feature_std: f64,
}

impl Numbers {
    /// Of so many images, from what [`Seen::numbers`] gave.
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

    /// What has become useless, and what to change; of a single image nothing can be said.
    pub(super) fn collapse(&self, config: &DinoConfig) -> Option<String> {
        if self.images < LEAST_IMAGES {
            return None;
        }
        let largest = config.largest_entropy();
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

    /// As a task tells them.
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
