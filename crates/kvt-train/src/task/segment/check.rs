//! Settings that conflict with segmentation, checked before anything is created.

use crate::config::Plan;
use crate::task::dense::Words;
use crate::task::size::heads;
use crate::task::{Conflict, SegmentEval};

const WORDS: Words = Words {
    task: "segment",
    does: "classifies pixels",
    targets: "masks",
    counted: "masks",
    loss: "the loss of `task = \"segment\"` is the cross-entropy of pixels",
    whole: "a mask fits its",
    img_size: "give one number, or leave it out: `dense.crop` sets the size of training images",
    num_classes: "leave `model.num_classes` out: `data.classes` says what the values of the masks are",
    head_drop: "set `segment.dropout`, that of the heads",
};

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Conflict> {
    let (segment, data) = (&plan.segment, &plan.data);
    let slides = segment.eval == SegmentEval::Slide;
    let mut strides = segment.eval_stride.iter().zip(segment.eval_crop);
    let keys = [
        (
            !data.is_masks(),
            "data.kind",
            "`task = \"segment\"` needs a mask of classes for each image",
            "set `data.kind = \"masks\"`, or `data.shapes.layout = \"dense\"` for generated scenes",
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
            slides && strides.any(|(stride, crop)| *stride > crop),
            "segment.eval_stride",
            "windows further apart than their size leave pixels out",
            "set `segment.eval_stride` to at most `segment.eval_crop`",
        ),
    ];
    let own = Conflict::of(keys);
    own.chain(WORDS.refused(plan))
        .chain(pyramid(plan))
        .collect()
}

/// A conflict between the model and the maps or crops that the task needs of it.
fn pyramid(plan: &Plan) -> Option<Conflict> {
    // Errors of the model itself are reported elsewhere.
    let model = plan.model.config(None).ok()?;
    if let Err(error) = model.dense(plan.segment.window_padding) {
        return Some(Conflict::of_backbone(&error));
    }
    if let Ok(channels) = model.pyramid_channels()
        && let Err(error) = heads(plan, 2).validate(channels.len())
    {
        let help = "see `[segment]` of `kvt config reference`";
        return Some(Conflict::new(
            "segment.pool_scales",
            error.to_string(),
            help,
        ));
    }
    let crop = plan.dense.crop.map(|side| side as usize);
    let windows = (plan.segment.eval == SegmentEval::Slide).then_some(plan.segment.eval_crop);
    let sizes = [("dense.crop", Some(crop)), ("segment.eval_crop", windows)];
    sizes.into_iter().find_map(|(key, size)| {
        let (size, least) = (size?, model.pyramid_least_side().ok()?);
        (size[0].min(size[1]) < least).then(|| {
            let message = format!("{} makes no maps of {size:?} pixels", model.name());
            let help = format!("set `{key}` to at least {least} pixels on each side");
            Conflict::new(key, message, help)
        })
    })
}
