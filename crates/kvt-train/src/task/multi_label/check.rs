//! Settings that conflict with several labels for each image, checked before anything is created.

use crate::config::Plan;
use crate::recipe::{DistillKind, LossKind};
use crate::task::Conflict;

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Conflict> {
    let keys = [
        (
            !plan.data.can_have_label_sets(),
            "data.kind",
            "`task = \"multi-label\"` needs any number of labels for each image",
            "set `data.labels` to a table with the columns `path` and `label`, such as `cat|dog`, or with a column for each class; or take \
             `data.kind = \"parquet\"`, with such labels in `data.label_column` or a column for each class",
        ),
        (
            plan.loss.kind != LossKind::Bce,
            "loss.kind",
            "`task = \"multi-label\"` learns each class by itself, but this loss lets classes exclude each other",
            "leave `loss.kind` out, or set it to \"bce\"",
        ),
        (
            plan.loss.token_weight > 0.0,
            "loss.token_weight",
            "the targets of tokens are of one label for each image",
            "set `loss.token_weight = 0`",
        ),
        (
            plan.mix.mixes_tokens(),
            "mix.mix_token",
            "the targets of mixed tokens are of one label for each image",
            "set `mix.mix_token = 0`: `mix.mixup` and `mix.cutmix` mix images with all of their labels",
        ),
        (
            plan.distill.kind != DistillKind::None,
            "distill.kind",
            "teachers choose one class for each image, but `task = \"multi-label\"` has several",
            "set `distill.kind = \"none\"`",
        ),
    ];
    Conflict::of(keys).collect()
}
