//! Settings that conflict with detection, checked before anything is created.

use crate::config::Plan;
use crate::data::DataKind;
use crate::task::Conflict;
use crate::task::dense::Words;

/// Sides of images are padded to a multiple of so many pixels: no image is smaller.
const LEAST_SIDE: usize = 32;

const WORDS: Words = Words {
    task: "detect",
    does: "finds objects",
    targets: "objects",
    counted: "annotations",
    loss: "`task = \"detect\"` has five losses of its own",
    whole: "boxes and masks fit their",
    img_size: "give one number, or leave it out: `multiscale.sizes` and `multiscale.max` set the size of training images",
    num_classes: "leave `model.num_classes` out",
    head_drop: "leave `model.head_drop` out",
};

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Conflict> {
    let data = &plan.data;
    let of_kind = if data.kind == DataKind::Shapes {
        "data.shapes.layout"
    } else {
        "data.kind"
    };
    let objects = [(
        !data.is_objects(),
        of_kind,
        "`task = \"detect\"` needs images with objects",
        "set `data.kind = \"coco\"`, or `data.shapes.layout = \"dense\"` for generated scenes",
    )];
    let repeats = [(
        data.repeats > 1,
        "data.repeats",
        "repeated augmentation is of images with a class, not of those with objects",
        "set `data.repeats = 1`",
    )];
    let found = Conflict::of(objects).chain(WORDS.refused(plan));
    let found = found.chain(Conflict::of(repeats));
    found.chain(pyramid(plan)).collect()
}

/// A conflict between the model and the maps that the task needs of it.
fn pyramid(plan: &Plan) -> Option<Conflict> {
    // Errors of the model itself are reported elsewhere.
    let model = plan.model.config(None).ok()?;
    if let Err(error) = model.dense(plan.detect.window_padding) {
        return Some(Conflict::of_backbone(&error));
    }
    let least = model.pyramid_least_side().ok()?;
    (least > LEAST_SIDE).then(|| {
        let message = format!(
            "{} makes no maps of images with a side below {least} pixels, and `task = \"detect\"` pads to {LEAST_SIDE}",
            model.name()
        );
        Conflict::new(
            "model.name",
            message,
            "take a model of the families Swin or Twins",
        )
    })
}
