//! Settings that conflict with detection, checked before anything is created.

use crate::config::Plan;
use crate::data::{DataKind, DecodeMode};
use crate::recipe::{DistillKind, LossConfig};
use crate::task::Freeze;
use crate::task::dino::Misfit;

/// Sides of images are padded to a multiple of so many pixels: no image is smaller.
const LEAST_SIDE: usize = 32;

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Misfit> {
    let (mix, data) = (&plan.mix, &plan.data);
    let mixed = [
        ("mix.mixup", mix.mixup),
        ("mix.cutmix", mix.cutmix),
        ("mix.mix_token", mix.mix_token),
    ];
    let mixed = mixed.into_iter().find(|(_, value)| *value > 0.0);
    let of_kind = if data.kind == DataKind::Shapes {
        "data.shapes.layout"
    } else {
        "data.kind"
    };
    let keys = [
        (
            !data.is_objects(),
            of_kind,
            "`task = \"detect\"` needs images with objects",
            "set `data.kind = \"coco\"`, or `data.shapes.layout = \"dense\"` for generated scenes",
        ),
        (
            mix.is_on(),
            mixed.map_or("mix.cutmix_minmax", |(key, _)| key),
            "`[mix]` mixes images with their labels, which `task = \"detect\"` does not do with objects",
            "set `mix.mixup`, `mix.cutmix` and `mix.mix_token` to 0, and leave out `mix.cutmix_minmax`",
        ),
        (
            plan.distill.kind != DistillKind::None,
            "distill.kind",
            "teachers classify whole images, but `task = \"detect\"` finds objects",
            "set `distill.kind = \"none\"`",
        ),
        (
            plan.loss != LossConfig::default(),
            "loss.kind",
            "`[loss]` is of classifiers: `task = \"detect\"` has five losses of its own",
            "leave `[loss]` out",
        ),
        (
            plan.analysis.every > 0,
            "analysis.every",
            "layers are analysed on images of one size with a class, which `task = \"detect\"` does not have",
            "set `analysis.every = 0`",
        ),
        (
            plan.init.freeze != Freeze::None,
            "init.freeze",
            "`task = \"detect\"` trains the whole network",
            "set `init.freeze = \"none\"`",
        ),
        (
            plan.init.reset_mixer,
            "init.reset_mixer",
            "`task = \"detect\"` takes only weights that fit the attention mechanism",
            "set `init.reset_mixer = false`: dense and k-NN attention have the same weights",
        ),
        (
            plan.eval.batch_size != 1,
            "eval.batch_size",
            "`task = \"detect\"` evaluates image by image: padding to a common size would change the results",
            "leave `eval.batch_size` out",
        ),
        (
            plan.model.overrides.num_classes.is_some(),
            "model.num_classes",
            "the number of classes of `task = \"detect\"` is that of the annotations",
            "leave `model.num_classes` out",
        ),
        (
            plan.model.overrides.head_drop.is_some(),
            "model.head_drop",
            "the classifier of whole images is not part of the network of `task = \"detect\"`",
            "leave `model.head_drop` out",
        ),
        (
            data.decode == DecodeMode::Scaled,
            "data.decode",
            "boxes and masks fit their whole image only, so images are decoded whole",
            "set `data.decode = \"exact\"`",
        ),
        (
            data.repeats > 1,
            "data.repeats",
            "repeated augmentation is of images with a class, not of those with objects",
            "set `data.repeats = 1`",
        ),
    ];
    let keys = keys.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    let mut found: Vec<Misfit> = keys
        .map(|(_, key, message, help)| Misfit::new(key, message, help))
        .collect();
    found.extend(pyramid(plan));
    found
}

/// A conflict between the model and the maps that the task needs of it.
fn pyramid(plan: &Plan) -> Option<Misfit> {
    // Errors of the model itself are reported elsewhere.
    let model = plan.model.config(None).ok()?;
    let help = "take a model of the families Swin or Twins";
    if let Err(error) = model.dense(plan.detect.window_padding) {
        return Some(Misfit::new("model.name", error.to_string(), help));
    }
    let least = model.pyramid_least_side().ok()?;
    (least > LEAST_SIDE).then(|| {
        let message = format!(
            "{} makes no maps of images with a side below {least} pixels, and `task = \"detect\"` pads to {LEAST_SIDE}",
            model.name()
        );
        Misfit::new("model.name", message, help)
    })
}
