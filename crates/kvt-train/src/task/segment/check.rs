//! Settings that conflict with segmentation, checked before anything is created.

use crate::config::Plan;
use crate::data::DecodeMode;
use crate::recipe::{DistillKind, LossConfig};
use crate::task::dino::Misfit;
use crate::task::size::heads;
use crate::task::{Freeze, SegmentEval};

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Misfit> {
    let (mix, segment, data) = (&plan.mix, &plan.segment, &plan.data);
    let mixed = [
        ("mix.mixup", mix.mixup),
        ("mix.cutmix", mix.cutmix),
        ("mix.mix_token", mix.mix_token),
    ];
    let mixed = mixed.into_iter().find(|(_, value)| *value > 0.0);
    let [rows, columns] = segment.eval_crop;
    let slides = segment.eval == SegmentEval::Slide;
    let wide = segment
        .eval_stride
        .iter()
        .zip([rows, columns])
        .any(|(stride, crop)| *stride > crop);
    let keys = [
        (
            !data.is_masks(),
            "data.kind",
            "`task = \"segment\"` needs a mask of classes for each image",
            "set `data.kind = \"masks\"`, or `data.shapes.layout = \"dense\"` for generated scenes",
        ),
        (
            mix.is_on(),
            mixed.map_or("mix.cutmix_minmax", |(key, _)| key),
            "`[mix]` mixes images with their labels, which `task = \"segment\"` does not do with masks",
            "set `mix.mixup`, `mix.cutmix` and `mix.mix_token` to 0, and leave out `mix.cutmix_minmax`",
        ),
        (
            plan.distill.kind != DistillKind::None,
            "distill.kind",
            "teachers classify whole images, but `task = \"segment\"` classifies pixels",
            "set `distill.kind = \"none\"`",
        ),
        (
            plan.loss != LossConfig::default(),
            "loss.kind",
            "`[loss]` is of classifiers: the loss of `task = \"segment\"` is the cross-entropy of pixels",
            "leave `[loss]` out",
        ),
        (
            plan.analysis.every > 0,
            "analysis.every",
            "layers are analysed on images of one size with a class, which `task = \"segment\"` does not have",
            "set `analysis.every = 0`",
        ),
        (
            plan.init.freeze != Freeze::None,
            "init.freeze",
            "`task = \"segment\"` trains the whole network",
            "set `init.freeze = \"none\"`",
        ),
        (
            plan.init.reset_mixer,
            "init.reset_mixer",
            "`task = \"segment\"` takes only weights that fit the attention mechanism",
            "set `init.reset_mixer = false`: dense and k-NN attention have the same weights",
        ),
        (
            plan.train.batch_size < 2,
            "train.batch_size",
            "with one image, the head's batch norm has one value per channel where it averages the whole map",
            "give a micro-batch at least two images: `train.accumulate` does not help",
        ),
        (
            !data.drop_last,
            "data.drop_last",
            "the last batch of an epoch can be a single image, whose batch norms have one value per channel",
            "set `data.drop_last = true`",
        ),
        (
            plan.eval.batch_size != 1,
            "eval.batch_size",
            "`task = \"segment\"` evaluates image by image: padding to a common size would change the results",
            "leave `eval.batch_size` out",
        ),
        (
            plan.model.overrides.num_classes.is_some(),
            "model.num_classes",
            "the number of classes of `task = \"segment\"` is that of the masks",
            "leave `model.num_classes` out: `data.classes` says what the values of the masks are",
        ),
        (
            plan.model.overrides.head_drop.is_some(),
            "model.head_drop",
            "the classifier of whole images is not part of the network of `task = \"segment\"`",
            "set `segment.dropout`, that of the heads",
        ),
        (
            data.decode == DecodeMode::Scaled,
            "data.decode",
            "a mask fits its whole image only, so images are decoded whole",
            "set `data.decode = \"exact\"`",
        ),
        (
            slides && wide,
            "segment.eval_stride",
            "windows further apart than their size leave pixels out",
            "set `segment.eval_stride` to at most `segment.eval_crop`",
        ),
    ];
    let keys = keys.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    let mut found: Vec<Misfit> = keys
        .map(|(_, key, message, help)| Misfit::new(key, message, help))
        .collect();
    found.extend(pyramid(plan));
    found
}

/// A conflict between the model and the maps or crops that the task needs of it.
fn pyramid(plan: &Plan) -> Option<Misfit> {
    // Errors of the model itself are reported elsewhere.
    let model = plan.model.config(None).ok()?;
    if let Err(error) = model.dense(plan.segment.window_padding) {
        let help = "take a model of the families Swin or Twins";
        return Some(Misfit::new("model.name", error.to_string(), help));
    }
    if let Ok(channels) = model.pyramid_channels()
        && let Err(error) = heads(plan, 2).validate(channels.len())
    {
        let help = "see `[segment]` of `kvt config reference`";
        return Some(Misfit::new("segment.pool_scales", error.to_string(), help));
    }
    let crop = plan.dense.crop.map(|side| side as usize);
    let windows = (plan.segment.eval == SegmentEval::Slide).then_some(plan.segment.eval_crop);
    let sizes = [("dense.crop", Some(crop)), ("segment.eval_crop", windows)];
    sizes.into_iter().find_map(|(key, size)| {
        let (size, least) = (size?, model.pyramid_least_side().ok()?);
        (size[0].min(size[1]) < least).then(|| {
            let message = format!("{} makes no maps of {size:?} pixels", model.name());
            let help = format!("set `{key}` to at least {least} pixels on each side");
            Misfit::new(key, message, help)
        })
    })
}
