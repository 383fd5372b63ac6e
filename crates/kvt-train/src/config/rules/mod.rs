//! The rules over several keys, and rules that a schema cannot express: defaults that depend on other keys,
//! conditionally required keys, and values that must match.

mod data;
mod distill;
mod model;
mod recipe;
mod tasks;

use std::path::Path;

use kvt_models::weights::is_of_weights;

use self::data::data;
pub(super) use self::data::leave_other_kinds;
use self::distill::distillation;
use self::model::{lora, model};
use self::recipe::{loss, recipe};
pub(super) use self::tasks::leave_other_tasks;
use self::tasks::task;
use super::Plan;
use super::document::Checks;
use crate::augment::AugmentConfig;
use crate::device::{self, NAMES};
use crate::fetch::Published;
use crate::task::TaskKind;

/// Fills in the defaults that depend on other keys, resets keys that another key disables, and reports conflicts.
/// Without `with_data`, the data can be missing.
pub(super) fn complete(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    model(plan, checks);
    lora(plan, checks);
    data(plan, with_data, checks);
    recipe(plan, checks);
    channels(plan, checks);
    augment(&mut plan.augment, checks);
    loss(plan, checks);
    distillation(plan, checks);

    // Without gradients, twice as many images fit in memory.
    let images = match plan.task {
        TaskKind::Segment | TaskKind::Detect => 1,
        TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => 2 * plan.train.batch_size,
    };
    checks.by_default("eval.batch_size", &mut plan.eval.batch_size, images);
    task(plan, checks);
    // Whether this machine has the device is only checked where it is used.
    let device = &plan.train.device;
    if device::parse(device).is_err() {
        checks.refuse("train.device", &format!("{device:?}"), NAMES);
    }
    let folder = Path::new("runs").join(checks.document.name());
    checks.by_default("run.dir", &mut plan.run.dir, folder);
}

/// The channels of the model, and a mean and a standard deviation for each.
fn channels(plan: &mut Plan, checks: &mut Checks<'_>) {
    let channels = plan.model.overrides.in_chans.unwrap_or(3);
    if !matches!(channels, 1 | 3 | 4) {
        let expected = "1 (grey), 3 (red, green and blue) or 4 (with alpha)";
        checks.refuse("model.in_chans", &channels.to_string(), expected);
        return;
    }
    for (key, values) in [
        ("augment.mean", &plan.augment.mean),
        ("augment.std", &plan.augment.std),
    ] {
        if ![1, 3, channels].contains(&values.len()) {
            let expected = format!("a number for each of the {channels} channels of the model");
            checks.refuse(key, &format!("{values:?}"), &expected);
        }
    }
    plan.augment.adapt_to(channels);
}

/// `[augment]`.
fn augment(augment: &mut AugmentConfig, checks: &mut Checks<'_>) {
    let preset = augment.preset;
    checks.by_default("augment.hflip", &mut augment.hflip, preset.hflip());
    checks.by_default("augment.crop_pct", &mut augment.crop_pct, preset.crop_pct());
    if let Err(error) = augment.check_auto() {
        checks.refuse(
            "augment.auto",
            &format!("{:?}", augment.auto),
            &error.wanted(),
        );
    }
    if !augment.jitters() {
        augment.color_jitter = 0.0;
    }
    if augment.erase == 0.0 {
        let defaults = AugmentConfig::default();
        (augment.erase_mode, augment.erase_count) = (defaults.erase_mode, defaults.erase_count);
    }
}

/// Whether a path is one of weights: by its ending, or as the name of published ones.
fn are_weights(path: &Path) -> bool {
    is_of_weights(path) || Published::named(path).is_some()
}
