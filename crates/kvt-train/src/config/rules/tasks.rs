//! The sections of single tasks, and what a task refuses.

use kvt_models::ModelConfig;
use kvt_models::dense::WindowPadding;

use crate::augment::AugmentConfig;
use crate::config::Plan;
use crate::config::diff::diff;
use crate::config::document::Checks;
use crate::config::problem::Problem;
use crate::config::reference::section;
use crate::recipe::OptimDecay;
use crate::task::{
    Conflict, SegmentConfig, SegmentEval, TaskKind, check_detect, check_dino, check_multi_label,
    check_segment,
};

/// The sections of one task each, and that task.
const OF_ONE_TASK: [(&str, &str); 6] = [
    ("multi_label", "multi-label"),
    ("dino", "dino"),
    ("segment", "segment"),
    ("dense", "segment"),
    ("detect", "detect"),
    ("multiscale", "detect"),
];

/// Leaves out the sections of other tasks, and reports their keys if no task is given: an explicit task can disable the settings of a
/// base, a missing key cannot.
pub(in crate::config) fn leave_other_tasks(known: &mut toml::Table, checks: &mut Checks<'_>) {
    let task = known.get("task").and_then(toml::Value::as_str);
    let task = task.unwrap_or("classify").to_owned();
    for (name, of) in OF_ONE_TASK.into_iter().filter(|(_, of)| *of != task) {
        known.remove(name);
        let fields = section(name).map_or(&[][..], |section| &section.fields);
        for key in fields.iter().map(|field| format!("{name}.{}", field.name)) {
            if !checks.sets("task") {
                let message = format!("`{key}` is set, but the task is `classify`");
                let help = format!("add `task = \"{of}\"` at the top of the file");
                checks.conflict(&key, message, help);
            }
        }
    }
}

/// What the task sets, and what it refuses.
pub(super) fn task(plan: &mut Plan, checks: &mut Checks<'_>) {
    match plan.task {
        TaskKind::Classify => {}
        TaskKind::MultiLabel => {
            if let Some((entry, expected)) = plan.multi_label.misfit() {
                checks.refuse("multi_label.thresholds", &format!("{entry:?}"), expected);
            }
            conflicts(plan, check_multi_label, checks);
        }
        TaskKind::Dino => conflicts(plan, check_dino, checks),
        TaskKind::Segment => segment(plan, checks),
        TaskKind::Detect => detect(plan, checks),
    }
    // The recipes of these networks decide by names what decays. Other masks are refused with what the tasks need.
    if matches!(plan.task, TaskKind::Segment | TaskKind::Detect) {
        checks.by_default("optim.decay", &mut plan.optim.decay, OptimDecay::Names);
        return;
    }
    if plan.data.is_masks() {
        let key = if checks.sets("data.shapes.layout") {
            "data.shapes.layout"
        } else {
            "data.kind"
        };
        checks.conflict(
            key,
            "the images have masks of classes, but no class each",
            "add `task = \"segment\"` at the top of the file",
        );
    }
    if plan.optim.decay == OptimDecay::Names {
        let expected = "\"family\" or \"all\" unless `task = \"segment\"` or `task = \"detect\"`";
        checks.refuse("optim.decay", "\"names\"", expected);
    }
}

/// `[segment]` and `[dense]`.
fn segment(plan: &mut Plan, checks: &mut Checks<'_>) {
    let segment = &mut plan.segment;
    // As the authors of Twins do in segmentation, but not in detection.
    let key = "segment.window_padding";
    if !checks.sets(key) && matches!(plan.model.config(None), Ok(ModelConfig::Twins(_))) {
        segment.window_padding = WindowPadding::Hidden;
    }
    let defaults = SegmentConfig::default();
    if segment.aux_stage == 0 {
        segment.aux_channels = defaults.aux_channels;
        segment.aux_weight = defaults.aux_weight;
    }
    // Also of whole images, so that `segment.eval = "slide"` alone evaluates a finished run by windows.
    let whole = segment.eval == SegmentEval::Whole;
    if whole || !checks.sets("segment.eval_crop") {
        segment.eval_crop = plan.dense.crop.map(|side| side as usize);
    }
    if whole || !checks.sets("segment.eval_stride") {
        segment.eval_stride = segment.eval_crop.map(|side| (2 * side / 3).max(1));
    }
    conflicts(plan, check_segment, checks);
    augments_together(plan, ["segment", "masks", "dense"], checks);
}

/// `[detect]` and `[multiscale]`.
fn detect(plan: &mut Plan, checks: &mut Checks<'_>) {
    if let Some((key, value, expected)) = plan.multiscale.misfit() {
        checks.refuse(&format!("multiscale.{key}"), &value, &expected);
    }
    conflicts(plan, check_detect, checks);
    augments_together(plan, ["detect", "objects", "multiscale"], checks);
}

/// Refuses the keys of `[augment]` that images of a task do not have whose masks or objects are augmented with them, as a section says.
fn augments_together(plan: &Plan, [task, what, section]: [&str; 3], checks: &mut Checks<'_>) {
    let message =
        format!("`task = \"{task}\"` augments images and {what} together, as `[{section}]` says");
    let help =
        format!("leave it out: of `[augment]`, only `mean` and `std` apply to images with {what}");
    let used = &plan.augment;
    let mut plain = plan.clone();
    plain.augment = AugmentConfig {
        mean: used.mean.clone(),
        std: used.std.clone(),
        ..AugmentConfig::default()
    };
    for difference in diff(plan, &plain).unwrap_or_default() {
        checks.conflict(&difference.key, message.as_str(), help.as_str());
    }
}

/// Reports the settings that conflict with a task.
fn conflicts(plan: &Plan, check: fn(&Plan) -> Vec<Conflict>, checks: &mut Checks<'_>) {
    let known = !plan.model.name.is_empty() && !checks.refuses("model.name");
    for one in check(plan).into_iter().filter(|_| known) {
        let problem = Problem::new(checks.place(one.key), one.message);
        checks.problems.push(problem.help(one.help));
    }
}
