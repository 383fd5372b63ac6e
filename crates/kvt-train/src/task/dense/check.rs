//! Settings that conflict with every network on a backbone's maps, checked before anything is created.

use crate::config::Plan;
use crate::data::DecodeMode;
use crate::recipe::{DistillKind, LossConfig};
use crate::task::{Conflict, Freeze};

/// How a task says what it refuses.
pub(in crate::task) struct Words {
    /// Its name.
    pub(in crate::task) task: &'static str,
    /// What it does instead of classifying whole images.
    pub(in crate::task) does: &'static str,
    /// What its images have.
    pub(in crate::task) targets: &'static str,
    /// What says how many classes there are.
    pub(in crate::task) counted: &'static str,
    /// Why `[loss]` does not apply.
    pub(in crate::task) loss: &'static str,
    /// Why images are decoded whole.
    pub(in crate::task) whole: &'static str,
    /// What to do about a `model.img_size` that is not square.
    pub(in crate::task) img_size: &'static str,
    /// What to do about `model.num_classes`.
    pub(in crate::task) num_classes: &'static str,
    /// What to do about `model.head_drop`.
    pub(in crate::task) head_drop: &'static str,
}

impl Words {
    /// The conflicts of settings that no such task has.
    pub(in crate::task) fn refused(&self, plan: &Plan) -> Vec<Conflict> {
        let Self { task, does, .. } = self;
        let model = &plan.model.overrides;
        let mixed = format!(
            "`[mix]` mixes images with their labels, which `task = \"{task}\"` does not do with {}",
            self.targets
        );
        let keys = [
            Conflict::of_mixing(plan, mixed),
            // No model could follow the advice of another family: those with maps take squares, those that take rectangles have no maps.
            (
                model.img_size.is_some_and(|size| !size.is_square()),
                "model.img_size",
                format!(
                    "a height and a width are not those of the images of `task = \"{task}\"`, which have sizes of their own"
                ),
                self.img_size,
            ),
            (
                plan.distill.kind != DistillKind::None,
                "distill.kind",
                format!("teachers classify whole images, but `task = \"{task}\"` {does}"),
                "set `distill.kind = \"none\"`",
            ),
            (
                plan.loss != LossConfig::default(),
                "loss.kind",
                format!("`[loss]` is of classifiers: {}", self.loss),
                "leave `[loss]` out",
            ),
            (
                plan.analysis.every > 0,
                "analysis.every",
                format!(
                    "layers are analysed on images of one size with a class, which `task = \"{task}\"` does not have"
                ),
                "set `analysis.every = 0`",
            ),
            (
                plan.init.freeze != Freeze::None,
                "init.freeze",
                format!("`task = \"{task}\"` trains the whole network"),
                "set `init.freeze = \"none\"`",
            ),
            (
                plan.lora.rank > 0,
                "lora.rank",
                format!("`task = \"{task}\"` trains the whole network"),
                "set `lora.rank = 0`",
            ),
            (
                plan.init.reset_mixer,
                "init.reset_mixer",
                format!("`task = \"{task}\"` takes only weights that fit the attention mechanism"),
                "set `init.reset_mixer = false`: dense and k-NN attention have the same weights",
            ),
            (
                plan.eval.batch_size != 1,
                "eval.batch_size",
                format!(
                    "`task = \"{task}\"` evaluates image by image: padding to a common size would change the results"
                ),
                "leave `eval.batch_size` out",
            ),
            (
                model.in_chans.is_some_and(|channels| channels != 3),
                "model.in_chans",
                format!(
                    "`task = \"{task}\"` takes images of 3 channels: their colours are augmented"
                ),
                "leave `model.in_chans` out: grey images are repeated three times",
            ),
            (
                model.num_classes.is_some(),
                "model.num_classes",
                format!(
                    "the number of classes of `task = \"{task}\"` is that of the {}",
                    self.counted
                ),
                self.num_classes,
            ),
            (
                model.head_drop.is_some(),
                "model.head_drop",
                format!(
                    "the classifier of whole images is not part of the network of `task = \"{task}\"`"
                ),
                self.head_drop,
            ),
            (
                plan.data.decode == DecodeMode::Scaled,
                "data.decode",
                format!(
                    "{} whole image only, so images are decoded whole",
                    self.whole
                ),
                "set `data.decode = \"exact\"`",
            ),
        ];
        Conflict::of(keys).collect()
    }
}
