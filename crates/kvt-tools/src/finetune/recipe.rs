//! Settings for small data.
//!
//! Sources: the fine-tuning recipes of MAE (He et al. 2022, table 9) and BEiT (Bao et al. 2022): AdamW, weight decay 0.05,
//! layer decay 0.65 for ViT-B and 0.75 for others, drop path 0.1, label smoothing 0.1, RandAugment `rand-m9-mstd0.5-inc1`,
//! a short linear warm-up and a cosine. They train for 100 epochs on ImageNet; the length here is for folders with
//! hundreds to thousands of images on one machine. A linear probe uses only crop and flip, as in MAE and DINO. Low-rank adaptation
//! has ten times the rate of full fine-tuning, which Biderman et al. 2024 (<https://arxiv.org/abs/2405.09673>) and Schulman et al.
//! 2025 (<https://thinkingmachines.ai/blog/lora/>) find best, and which is near that of a probe's head.

use toml::Value;

use super::images::Images;
use super::{Request, count};
use kvt_data::text::counted;
use kvt_train::config::Plan;
use kvt_train::recipe::scaled_lr;
use kvt_train::task::Freeze;

/// Images processed in a run of default length: about ten minutes for DeiT-Tiny on two cores.
const IMAGES_SEEN: usize = 20_000;
/// Minimum and maximum number of epochs.
const EPOCHS: [usize; 2] = [5, 50];
/// The same for random weights, which take far longer.
const SCRATCH_IMAGES_SEEN: usize = 2_000_000;
const SCRATCH_EPOCHS: [usize; 2] = [30, 300];
/// The same for a small model of small images: ten epochs of CIFAR-10, ten to twenty minutes on two cores.
const SMALL_IMAGES_SEEN: usize = 500_000;
const SMALL_EPOCHS: [usize; 2] = [5, 100];
/// The maximum batch size, that of a small model, and the minimum number of updates per epoch, for which a smaller batch is used.
const BATCH: usize = 32;
const SMALL_BATCH: usize = 128;
const LEAST_STEPS: usize = 4;

/// The settings of a fine-tuning run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recipe {
    /// Number of epochs.
    epochs: u32,
    /// Images per update.
    batch_size: usize,
    /// Learning rate of the head for `lr_batch` images.
    lr: f64,
    /// See `optim.lr_batch`.
    lr_batch: usize,
    /// The learning rate of each layer, as a fraction of the next layer's.
    layer_decay: f64,
    /// Weight decay.
    weight_decay: f64,
    /// Stochastic depth of the last block.
    drop_path: f64,
    /// Fraction of the target that is distributed over all classes.
    label_smoothing: f64,
    /// Epochs of warm-up.
    warmup_epochs: f64,
    /// RandAugment, as timm's policy string.
    auto: &'static str,
}

impl Recipe {
    /// The recipe for a request: its training images, and a model with `params` parameters, which `is_small` says is for small images.
    pub(super) fn of(request: &Request, images: &Images, params: usize, is_small: bool) -> Self {
        let images = images.train;
        let recipe = match request.weights {
            Some(_) => Self::new(images, params),
            None if is_small => Self::small(images),
            None => Self::from_scratch(images, params),
        };
        if request.probe {
            recipe.of_head()
        } else if request.lora.is_some() {
            recipe.adapted()
        } else {
            recipe
        }
    }

    /// For a model with trained weights.
    fn new(images: usize, params: usize) -> Self {
        let epochs = epochs(images, IMAGES_SEEN, EPOCHS);
        Self {
            epochs,
            batch_size: batch(images, BATCH),
            lr: 5e-4,
            lr_batch: 128,
            layer_decay: match params {
                // ViT-B and similar sizes.
                50_000_000..200_000_000 => 0.65,
                _ => 0.75,
            },
            weight_decay: 0.05,
            drop_path: 0.1,
            label_smoothing: 0.1,
            warmup_epochs: f64::from(epochs) / 10.0,
            auto: "rand-m9-mstd0.5-inc1",
        }
    }

    /// For a model with random weights: DeiT's settings (Touvron et al. 2021, table 9) without mixing of images, and with
    /// more epochs for fewer images.
    fn from_scratch(images: usize, params: usize) -> Self {
        let recipe = Self::new(images, params);
        let epochs = epochs(images, SCRATCH_IMAGES_SEEN, SCRATCH_EPOCHS);
        Self {
            epochs,
            lr: 5e-4,
            lr_batch: 512,
            layer_decay: 1.0,
            warmup_epochs: (f64::from(epochs) / 10.0).min(5.0),
            ..recipe
        }
    }

    /// For a [`Small`](super::small::Small) model with random weights: the settings of `configs/cifar10/recipe.toml`, without
    /// RandAugment, which costs accuracy on small images.
    fn small(images: usize) -> Self {
        let epochs = epochs(images, SMALL_IMAGES_SEEN, SMALL_EPOCHS);
        Self {
            batch_size: batch(images, SMALL_BATCH),
            lr: 1e-3,
            lr_batch: SMALL_BATCH,
            layer_decay: 1.0,
            drop_path: 0.05,
            auto: "",
            ..Self::new(images, 0).with_epochs(epochs)
        }
    }

    /// The same for the head alone.
    fn of_head(self) -> Self {
        Self {
            lr: 4e-3,
            layer_decay: 1.0,
            weight_decay: 0.0,
            drop_path: 0.0,
            label_smoothing: 0.0,
            auto: "",
            ..self
        }
    }

    /// The same for low-rank adaptation: ten times the rate, the same in all layers, and no weight decay, which would be of the change
    /// to the weights.
    fn adapted(self) -> Self {
        Self {
            lr: 10.0 * self.lr,
            layer_decay: 1.0,
            weight_decay: 0.0,
            ..self
        }
    }

    /// Sets a chosen number of epochs; a tenth of them is warm-up.
    pub(super) fn with_epochs(self, epochs: u32) -> Self {
        Self {
            epochs,
            warmup_epochs: f64::from(epochs) / 10.0,
            ..self
        }
    }

    /// The keys: their sections, names and values.
    pub(super) fn keys(&self) -> [(&'static str, &'static str, Value); 15] {
        [
            ("model", "drop_path", self.drop_path.into()),
            ("augment", "auto", self.auto.into()),
            ("optim", "lr", self.lr.into()),
            ("optim", "lr_batch", count(self.lr_batch)),
            ("optim", "layer_decay", self.layer_decay.into()),
            ("optim", "weight_decay", self.weight_decay.into()),
            ("optim", "clip_norm", Value::from(1.0)),
            ("schedule", "per", "step".into()),
            ("schedule", "warmup_epochs", self.warmup_epochs.into()),
            ("schedule", "warmup_lr", Value::from(1e-6)),
            ("schedule", "min_lr", Value::from(1e-6)),
            ("loss", "label_smoothing", self.label_smoothing.into()),
            ("train", "epochs", i64::from(self.epochs).into()),
            ("train", "batch_size", count(self.batch_size)),
            ("log", "every_steps", count(10)),
        ]
    }

    /// The length of a run on so many images.
    pub(super) fn length(&self, images: usize) -> String {
        let seen = images * self.epochs as usize;
        format!(
            "length   {} epochs, so that {seen} images are seen",
            self.epochs
        )
    }

    /// A description of the training in a plan with this recipe.
    pub(super) fn describe(plan: &Plan) -> String {
        let images = plan.train.batch_size * plan.train.accumulate;
        let lr = scaled_lr(plan.optim.lr, plan.optim.lr_batch, images);
        let rank = plan.lora.rank;
        let adapted = format!("the head, and factors of rank {rank} (LoRA)");
        let what = match plan.init.freeze {
            Freeze::None if plan.init.weights.is_none() => "random weights",
            Freeze::None if rank > 0 => adapted.as_str(),
            Freeze::None => "all of the model",
            Freeze::Backbone => "the head alone (a linear probe)",
        };
        format!(
            "recipe   {what}: {} in batches of {images}, learning rate {lr:.2e}, warm-up {}; every key: \
             `--print-config`",
            counted(plan.train.epochs, "epoch"),
            counted(plan.schedule.warmup_epochs, "epoch")
        )
    }
}

/// The epochs in which so many images are seen, between the fewest and the most.
fn epochs(images: usize, seen: usize, [fewest, most]: [usize; 2]) -> u32 {
    let epochs = seen.div_ceil(images.max(1)).clamp(fewest, most);
    u32::try_from(epochs).unwrap_or(u32::MAX)
}

/// The images of an update, at most `most`: the largest power of two with which an epoch has enough updates.
fn batch(images: usize, most: usize) -> usize {
    match images / LEAST_STEPS {
        0 | 1 => 2,
        share => (1 << share.ilog2()).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_folders_get_more_epochs_and_smaller_batches() {
        let numbers = |images| {
            let recipe = Recipe::new(images, 5_000_000);
            (recipe.epochs, recipe.batch_size)
        };
        for (images, expected) in [
            (0, (50, 2)),
            (7, (50, 2)),
            (20, (50, 4)),
            (100, (50, 16)),
            (500, (40, 32)),
            (4000, (5, 32)),
            (1_000_000, (5, 32)),
        ] {
            assert_eq!(numbers(images), expected, "{images}");
        }
    }

    #[test]
    fn random_weights_take_longer_and_no_layer_is_spared() {
        let epochs = |images| Recipe::from_scratch(images, 5_000_000).epochs;
        assert_eq!(
            [100, 10_000, 50_000, 1_000_000].map(epochs),
            [300, 200, 40, 30]
        );
        let recipe = Recipe::from_scratch(50_000, 5_000_000);
        assert_eq!((recipe.layer_decay, recipe.warmup_epochs), (1.0, 4.0));
        // As in DeiT.
        assert_eq!(Recipe::from_scratch(100, 5_000_000).warmup_epochs, 5.0);
    }

    #[test]
    fn small_images_are_seen_half_a_million_times() {
        let numbers = |images| {
            let recipe = Recipe::small(images);
            (recipe.epochs, recipe.batch_size)
        };
        assert_eq!(
            [60, 5_000, 50_000, 1_000_000].map(numbers),
            [(100, 8), (100, 128), (10, 128), (5, 128)]
        );
    }

    #[test]
    fn a_larger_model_learns_more_of_its_layers_slowly() {
        let decay = |params| Recipe::new(500, params).layer_decay;
        assert_eq!(
            [5_700_000, 22_000_000, 86_000_000, 304_000_000].map(decay),
            [0.75, 0.75, 0.65, 0.75]
        );
    }
}
