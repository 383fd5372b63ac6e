//! The rules over several keys, and rules that a schema cannot express: defaults that depend on other keys,
//! conditionally required keys, and values that must match.

use std::path::Path;

use kvt_models::ModelConfig;
use kvt_models::dense::WindowPadding;
use kvt_models::weights::is_of_weights;

use super::diff::diff;
use super::document::Checks;
use super::problem::Problem;
use super::reference::section;
use super::suggest::closest;
use super::{Plan, attention};
use crate::augment::{AugmentConfig, DenseConfig, MultiscaleConfig};
use crate::data::shapes::{Layout, ShapesConfig};
use crate::data::{Balance, DataConfig, DataError, DataKind, DecodeMode, OnError};
use crate::device::{NAMES, Wanted};
use crate::engine::TrainConfig;
use crate::fetch::{Published, instead, similar};
use crate::recipe::mix::MixConfig;
use crate::recipe::{
    ClassWeights, DistillConfig, DistillKind, EmaReport, LossKind, OptimDecay, ScheduleConfig,
};
use crate::task::{
    DetectConfig, DinoConfig, Misfit, MultiLabelConfig, ResetHead, SegmentConfig, SegmentEval,
    TaskKind, check_detect, check_dino, check_multi_label, check_segment,
};

/// Fills in the defaults that depend on other keys, resets keys that another key disables, and reports conflicts.
/// Without `with_data`, the data can be missing.
pub(super) fn complete(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    model(plan, checks);
    data(plan, with_data, checks);
    recipe(plan, checks);

    let augment = &mut plan.augment;
    if !checks.sets("augment.hflip") {
        augment.hflip = augment.preset.hflip();
    }
    if !checks.sets("augment.crop_pct") {
        augment.crop_pct = augment.preset.crop_pct();
    }
    for (key, [low, high]) in augment.reversed() {
        let (key, pair) = (format!("augment.{key}"), format!("[{low:?}, {high:?}]"));
        checks.refuse(&key, &pair, "the smaller value first");
    }
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

    mixing(&mut plan.mix, checks);
    if plan.task == TaskKind::MultiLabel {
        if !checks.sets("loss.kind") {
            plan.loss.kind = LossKind::Bce;
        }
        if !checks.sets("loss.label_smoothing") {
            plan.loss.label_smoothing = 0.0;
        }
    }
    if plan.loss.kind == LossKind::CrossEntropy {
        plan.loss.bce_threshold = None;
        plan.loss.bce_sum = false;
    }
    class_weights(plan, checks);
    distillation(plan, checks);

    // Without gradients, twice as many images fit in memory.
    if !checks.sets("eval.batch_size") {
        plan.eval.batch_size = match plan.task {
            TaskKind::Segment | TaskKind::Detect => 1,
            TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => 2 * plan.train.batch_size,
        };
    }
    multi_label(plan, checks);
    dino(plan, checks);
    segment(plan, checks);
    detect(plan, checks);
    decay(plan, checks);
    // Whether this machine has the device is only checked where it is used.
    let device = &plan.train.device;
    if device.parse::<Wanted>().is_err() {
        checks.refuse("train.device", &format!("{device:?}"), NAMES);
    }
    if !checks.sets("run.dir") {
        plan.run.dir = Path::new("runs").join(checks.document.name());
    }
}

fn model(plan: &mut Plan, checks: &mut Checks<'_>) {
    let names = kvt_models::names();
    let names = || names.iter().map(String::as_str);
    let name = plan.model.name.as_str();
    match checks.set_place("model.name") {
        None => {
            let example = names().next().unwrap_or_default();
            let help = format!("add `name = \"{example}\"` under `[model]`");
            checks.missing("model.name", &help);
        }
        Some(place) if !checks.refuses("model.name") && ModelConfig::by_name(name).is_err() => {
            let help = match closest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`kvt models list` names them all".to_owned(),
            };
            let problem = Problem::new(place, format!("unknown model `{name}`"));
            checks.problems.push(problem.help(help));
        }
        Some(_) => {}
    }

    for section in ["model.attention", "model.class_attention"] {
        attention::keys(section, checks);
    }
    // Named models have dense attention and no dropout.
    let overrides = &mut plan.model.overrides;
    overrides.drop_path.get_or_insert(0.0);
    overrides.attn_drop.get_or_insert(0.0);
    overrides.attention.get_or_insert_default();

    let init = &mut plan.init;
    if let Some(path) = &init.weights
        && !are_weights(path)
    {
        let value = path.display().to_string();
        let expected = format!(
            "a `.safetensors`, `.pth`, `.pt`, `.bin` or `.ckpt` file, or a name of `kvt models list --weights`{}",
            instead(&similar(&value))
        );
        checks.refuse("init.weights", &value, &expected);
    }
    if init.weights.is_none() {
        init.reset_head = ResetHead::IfOther(false);
        init.reset_mixer = false;
    }
}

/// Weights of classes, which are positive, and are for cross-entropy with labels.
fn class_weights(plan: &Plan, checks: &mut Checks<'_>) {
    let key = "loss.class_weights";
    let weights = match &plan.loss.class_weights {
        ClassWeights::None => return,
        ClassWeights::Inverse => &[],
        ClassWeights::Each(weights) => weights.as_slice(),
    };
    if plan.task != TaskKind::Classify || plan.loss.kind != LossKind::CrossEntropy {
        conflict(
            key,
            "`loss.class_weights` is for the cross-entropy of a classifier",
            "leave it out, or take `loss.kind = \"cross-entropy\"`; `data.balance` is for any loss",
            checks,
        );
    } else if let Some(wrong) = weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight > 0.0))
    {
        checks.refuse(key, &format!("{wrong:?}"), "weights above 0");
    }
}

/// Optimizer, schedule and average.
fn recipe(plan: &mut Plan, checks: &mut Checks<'_>) {
    let optim = &mut plan.optim;
    if !checks.sets("optim.betas") {
        optim.betas = optim.name.betas();
    }
    if !checks.sets("optim.eps") {
        optim.eps = optim.name.eps();
    }
    if !checks.sets("optim.momentum") {
        optim.momentum = optim.name.momentum();
    }
    let clips = optim.clips();
    let mut clips = clips.iter().filter(|(_, limit)| *limit > 0.0);
    if let Some((first, _)) = clips.next() {
        for (key, limit) in clips {
            let expected =
                format!("0 beside `optim.{first}`, since gradients are clipped in one way");
            checks.refuse(&format!("optim.{key}"), &format!("{limit:?}"), &expected);
        }
    }

    let (schedule, train) = (&mut plan.schedule, &mut plan.train);
    if !checks.sets("schedule.counts") {
        schedule.counts = schedule.per.counts();
    }
    let defaults = ScheduleConfig::default();
    if schedule.warmup_updates > 0 {
        schedule.warmup_epochs = 0.0;
        schedule.warmup_lr = defaults.warmup_lr;
        schedule.warmup_prefix = false;
        schedule.warmup_closed = false;
    } else {
        schedule.warmup_ratio = defaults.warmup_ratio;
    }
    if train.updates > 0 {
        train.epochs = TrainConfig::default().epochs;
        schedule.cooldown_epochs = 0;
    }
    if train.eval_every_updates > 0 {
        train.eval_every = 0;
    }

    let ema = &mut plan.ema;
    let is_kept = ema.decay > 0.0;
    ema.warmup &= is_kept;
    if ema.report == EmaReport::Ema
        && !is_kept
        && !checks.refuses("ema.decay")
        && let Some(place) = checks.set_place("ema.report")
    {
        let message = "`ema.report` is \"ema\", but the run keeps no average";
        let help = "set `ema.decay` above 0, or `report = \"raw\"`";
        checks
            .problems
            .push(Problem::new(place, message).help(help));
    }
}

fn data(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    let is_of_objects = plan.task == TaskKind::Detect;
    let data = &mut plan.data;
    let has_path = checks.sets("data.path");
    match data.kind {
        DataKind::Shapes => {
            data.shapes.get_or_insert_default();
            if !has_path {
                data.path = "data/shapes".into();
            }
        }
        kind => {
            data.shapes = None;
            if with_data && !has_path && !checks.refuses("data.kind") {
                let help = match kind {
                    DataKind::Tar => {
                        "add `path = \"FOLDER\"` under `[data]`, with shards at `FOLDER/train/*.tar`"
                    }
                    DataKind::Parquet => {
                        "add `path = \"FOLDER\"` under `[data]`, with files such as `FOLDER/train-00000-of-00001.parquet`"
                    }
                    DataKind::Cifar => {
                        "add `path = \"FOLDER\"` under `[data]`, with CIFAR's binary files in it"
                    }
                    DataKind::Masks => {
                        "add `path = \"FOLDER\"` under `[data]`, with images at `FOLDER/images/train/*` and masks of the \
                         same names at `FOLDER/masks/train/*`"
                    }
                    DataKind::Coco => {
                        "add `path = \"FOLDER\"` under `[data]`, with images at `FOLDER/train/*` and their annotations in \
                         `FOLDER/annotations/instances_train.json`; COCO's splits are `train = \"train2017\"`, `val = \"val2017\"`"
                    }
                    DataKind::Folder | DataKind::Shapes => {
                        "add `path = \"FOLDER\"` under `[data]`, with images at `FOLDER/train/<class>/*`, or \
                         `kind = \"shapes\"` for generated images"
                    }
                };
                checks.missing("data.path", help);
            }
        }
    }
    if data.kind != DataKind::Folder {
        of_another_kind(&["labels"], "folder", checks);
        data.labels = String::new();
    }
    if data.kind != DataKind::Masks {
        without_masks(data, checks);
    }
    if data.kind != DataKind::Coco {
        without_objects(data, checks);
    } else if !is_of_objects {
        conflict(
            "data.kind",
            "the images have objects with boxes, but no class each",
            "add `task = \"detect\"` at the top of the file",
            checks,
        );
    }
    if data.val_fraction > 0.0 && !data.list.is_empty() {
        let (value, expected) = (
            format!("{:?}", data.list),
            "\"\" with `data.val_fraction`, which divides all images",
        );
        checks.refuse("data.list", &value, expected);
    }
    let is_divided = matches!(
        data.kind,
        DataKind::Shapes | DataKind::Cifar | DataKind::Coco
    );
    if data.val_fraction > 0.0 && is_divided {
        let (value, expected) = (
            format!("{:?}", data.val_fraction),
            "0.0 for data that is divided",
        );
        checks.refuse("data.val_fraction", &value, expected);
    }
    if let Some(shapes) = &mut data.shapes {
        if shapes.layout == Layout::Folder {
            let unused = ShapesConfig::default();
            (shapes.objects, shapes.radius) = (unused.objects, unused.radius);
        }
        if let Err(DataError::ShapesConfig { key, refusal }) = shapes.validate() {
            let key = format!("data.shapes.{key}");
            if !checks.refuses(&key) {
                checks.refuse(&key, &refusal.value, &refusal.expected);
            }
        }
    }
    if let Some(shapes) = &data.shapes
        && !checks.refuses("data.shapes.classes")
        && !checks.refuses("data.shapes.train_per_class")
    {
        let all = shapes.classes * shapes.train_per_class;
        if data.subset > all {
            let expected = format!("at most {all}, the training images of `[data.shapes]`");
            checks.refuse("data.subset", &data.subset.to_string(), &expected);
        }
    }
    if data.cache > 0 && data.decode == DecodeMode::Scaled {
        let (value, expected) = (data.cache.to_string(), "0 with `data.decode = \"scaled\"`");
        checks.refuse("data.cache", &value, expected);
    }
    if data.on_error == OnError::Fail {
        data.max_skipped = DataConfig::default().max_skipped;
    }
    if data.balance != Balance::None {
        let keys = [
            ("data.shuffle", !data.shuffle, "false".to_owned(), "true"),
            (
                "data.repeats",
                data.repeats > 1,
                data.repeats.to_string(),
                "1",
            ),
        ];
        for (key, is_wrong, value, expected) in keys {
            if is_wrong {
                let expected = format!("{expected} with `data.balance`, which draws images");
                checks.refuse(key, &value, &expected);
            }
        }
        if plan.task != TaskKind::Classify {
            conflict(
                "data.balance",
                "`data.balance` goes by the class of an image, which this task does not have",
                "leave it out",
                checks,
            );
        }
    }
    // Without repeats, dividing the positions of a random order among replicas only gives another random order.
    if data.repeats == 1 {
        data.replicas = 1;
    }
    let (replicas, accumulate) = (data.replicas, plan.train.accumulate);
    if !accumulate.is_multiple_of(replicas) {
        let expected = format!("a divisor of `train.accumulate`, {accumulate}");
        checks.refuse("data.replicas", &replicas.to_string(), &expected);
    }
}

/// Resets the keys that only masks use.
fn without_masks(data: &mut DataConfig, checks: &mut Checks<'_>) {
    let keys = [
        "images",
        "masks",
        "image_suffix",
        "mask_suffix",
        "list",
        "zero",
        "ignore",
        "map",
    ];
    of_another_kind(&keys, "masks", checks);
    let unused = DataConfig::default();
    data.images = unused.images;
    data.masks = unused.masks;
    data.image_suffix = unused.image_suffix;
    data.mask_suffix = unused.mask_suffix;
    data.list = unused.list;
    if data.labels.is_empty() {
        of_another_kind(&["classes"], "masks", checks);
        data.classes = unused.classes;
    }
    data.zero = unused.zero;
    data.ignore = unused.ignore;
    data.map = unused.map;
}

/// Resets the keys that only images with objects use.
fn without_objects(data: &mut DataConfig, checks: &mut Checks<'_>) {
    let keys = ["train_annotations", "val_annotations", "group_orientation"];
    of_another_kind(&keys, "coco", checks);
    let unused = DataConfig::default();
    data.train_annotations = unused.train_annotations;
    data.val_annotations = unused.val_annotations;
    data.group_orientation = unused.group_orientation;
}

/// Reports keys of `[data]` that another kind uses. An explicit kind can disable those of a base; a missing key cannot.
fn of_another_kind(keys: &[&str], kind: &str, checks: &mut Checks<'_>) {
    for key in keys.iter().map(|key| format!("data.{key}")) {
        if checks.sets(&key) && !checks.sets("data.kind") && !checks.refuses(&key) {
            let message = format!("`{key}` is set, but `data.kind` is not");
            let help = format!("add `kind = \"{kind}\"` under `[data]`, or leave it out");
            conflict(&key, &message, &help, checks);
        }
    }
}

fn mixing(mix: &mut MixConfig, checks: &mut Checks<'_>) {
    if let Some(pair @ [low, high]) = mix.cutmix_minmax
        && low > high
    {
        let (key, pair) = ("mix.cutmix_minmax", format!("{pair:?}"));
        checks.refuse(key, &pair, "the smaller value first");
    }
    if !mix.is_on() {
        *mix = MixConfig::default();
    }
}

fn distillation(plan: &mut Plan, checks: &mut Checks<'_>) {
    let distill = &mut plan.distill;
    if distill.kind == DistillKind::None {
        // An explicit `kind = "none"` can disable the teacher of a base; a missing key cannot.
        for key in ["teacher", "teacher_model", "logits"] {
            if let Some(place) = checks.set_place(&format!("distill.{key}"))
                && !checks.sets("distill.kind")
            {
                let message = format!("`{key}` is set, but `distill.kind` is not");
                let help = "add `kind = \"soft\"` or `\"hard\"` under `[distill]`, or `\"none\"`";
                checks
                    .problems
                    .push(Problem::new(place, message).help(help.to_owned()));
            }
        }
        *distill = DistillConfig::default();
        return;
    }
    if distill.kind == DistillKind::Hard {
        let default = DistillConfig::default();
        distill.temperature = default.temperature;
        distill.divisor = default.divisor;
    }
    match (&distill.teacher, &distill.logits) {
        (None, None) => {
            let help = "add `teacher = \"RUN\"` under `[distill]`, the folder of a run, or `logits = \"FILE\"`, \
                        logits that a teacher has given before";
            checks.missing("distill.teacher", help);
        }
        (Some(_), Some(_)) => conflict(
            "distill.logits",
            "there are both a teacher and saved logits",
            "remove `distill.teacher` or `distill.logits`",
            checks,
        ),
        (None, Some(_)) if plan.mix.is_on() => conflict(
            "distill.logits",
            "saved logits are of images as they are, but `[mix]` mixes them",
            "set `mix.mixup` and `mix.cutmix` to 0, or take a `distill.teacher`",
            checks,
        ),
        _ => {}
    }
    if let Some(logits) = &distill.logits
        && logits
            .extension()
            .is_none_or(|ending| ending != "safetensors")
    {
        let value = logits.display().to_string();
        checks.refuse("distill.logits", &value, "a `.safetensors` file");
    }
    teacher_model(distill, checks);
}

fn multi_label(plan: &mut Plan, checks: &mut Checks<'_>) {
    if plan.task != TaskKind::MultiLabel {
        of_another_task("multi_label", "multi-label", checks);
        plan.multi_label = MultiLabelConfig::default();
        return;
    }
    if let Some((entry, expected)) = plan.multi_label.misfit() {
        checks.refuse("multi_label.thresholds", &format!("{entry:?}"), expected);
    }
    misfits(plan, check_multi_label, checks);
}

fn dino(plan: &mut Plan, checks: &mut Checks<'_>) {
    if plan.task != TaskKind::Dino {
        of_another_task("dino", "dino", checks);
        plan.dino = DinoConfig::default();
        return;
    }
    for (key, [low, high]) in plan.dino.reversed() {
        let (key, pair) = (format!("dino.{key}"), format!("[{low:?}, {high:?}]"));
        checks.refuse(&key, &pair, "the smaller value first");
    }
    misfits(plan, check_dino, checks);
}

fn segment(plan: &mut Plan, checks: &mut Checks<'_>) {
    if plan.task != TaskKind::Segment {
        of_another_task("segment", "segment", checks);
        of_another_task("dense", "segment", checks);
        plan.segment = SegmentConfig::default();
        plan.dense = DenseConfig::default();
        // Of detection, other masks are refused with what it needs.
        if plan.data.is_masks() && plan.task != TaskKind::Detect {
            let key = if checks.sets("data.shapes.layout") {
                "data.shapes.layout"
            } else {
                "data.kind"
            };
            conflict(
                key,
                "the images have masks of classes, but no class each",
                "add `task = \"segment\"` at the top of the file",
                checks,
            );
        }
        return;
    }
    for (key, pair, expected) in plan.dense.reversed() {
        checks.refuse(&format!("dense.{key}"), &pair, expected);
    }
    let segment = &mut plan.segment;
    if !checks.sets("segment.window_padding") {
        let model = plan.model.config(None);
        if let Ok(ModelConfig::Twins(_)) = model {
            segment.window_padding = WindowPadding::Hidden;
        }
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
    misfits(plan, check_segment, checks);
    augments_together(
        plan,
        "`task = \"segment\"` augments images and masks together, as `[dense]` says",
        "leave it out: of `[augment]`, only `mean` and `std` apply to images with masks",
        checks,
    );
}

fn detect(plan: &mut Plan, checks: &mut Checks<'_>) {
    if plan.task != TaskKind::Detect {
        of_another_task("detect", "detect", checks);
        of_another_task("multiscale", "detect", checks);
        plan.detect = DetectConfig::default();
        plan.multiscale = MultiscaleConfig::default();
        return;
    }
    if let Some((key, value, expected)) = plan.multiscale.misfit() {
        let key = format!("multiscale.{key}");
        if !checks.refuses(&key) {
            checks.refuse(&key, &value, &expected);
        }
    }
    if !checks.sets("detect.window_padding") {
        let model = plan.model.config(None);
        if let Ok(ModelConfig::Twins(_)) = model {
            plan.detect.window_padding = WindowPadding::Hidden;
        }
    }
    misfits(plan, check_detect, checks);
    augments_together(
        plan,
        "`task = \"detect\"` augments images and objects together, as `[multiscale]` says",
        "leave it out: of `[augment]`, only `mean` and `std` apply to images with objects",
        checks,
    );
}

/// Which parameters decay by default, and whether the rule is one of the task's network.
fn decay(plan: &mut Plan, checks: &mut Checks<'_>) {
    let has_names = matches!(plan.task, TaskKind::Segment | TaskKind::Detect);
    if has_names && !checks.sets("optim.decay") {
        plan.optim.decay = OptimDecay::Names;
    } else if !has_names && plan.optim.decay == OptimDecay::Names {
        let expected = "\"family\" or \"all\" unless `task = \"segment\"` or `task = \"detect\"`";
        checks.refuse("optim.decay", "\"names\"", expected);
    }
}

/// Refuses the keys of `[augment]` that images do not have whose masks or objects are augmented with them.
fn augments_together(plan: &Plan, message: &str, help: &str, checks: &mut Checks<'_>) {
    let used = &plan.augment;
    let mut plain = plan.clone();
    plain.augment = AugmentConfig {
        mean: used.mean,
        std: used.std,
        ..AugmentConfig::default()
    };
    for difference in diff(plan, &plain).unwrap_or_default() {
        conflict(&difference.key, message, help, checks);
    }
}

/// Reports the keys of a section that another task uses. An explicit task can disable the settings of a base; a missing key
/// cannot.
fn of_another_task(name: &str, task: &str, checks: &mut Checks<'_>) {
    let fields = section(name).map_or(&[][..], |section| &section.fields);
    for key in fields.iter().map(|field| format!("{name}.{}", field.name)) {
        if let Some(place) = checks.set_place(&key)
            && !checks.sets("task")
        {
            let message = format!("`{key}` is set, but the task is `classify`");
            let help = format!("add `task = \"{task}\"` at the top of the file");
            checks
                .problems
                .push(Problem::new(place, message).help(help));
        }
    }
}

/// Reports the settings that conflict with a task.
fn misfits(plan: &Plan, check: fn(&Plan) -> Vec<Misfit>, checks: &mut Checks<'_>) {
    let known = !plan.model.name.is_empty() && !checks.refuses("model.name");
    for misfit in check(plan).into_iter().filter(|_| known) {
        let place = checks
            .set_place(misfit.key)
            .unwrap_or_else(|| checks.document.place());
        let problem = Problem::new(place, misfit.message);
        checks.problems.push(problem.help(misfit.help));
    }
}

/// A weight file does not contain the model that it is for; the folder of a run does.
fn teacher_model(distill: &DistillConfig, checks: &mut Checks<'_>) {
    let key = "distill.teacher_model";
    match (&distill.teacher, &distill.teacher_model) {
        (Some(path), None) if are_weights(path) => {
            let help = "add `teacher_model = \"NAME\"` under `[distill]`: the model that the weights are for";
            checks.missing(key, help);
        }
        (Some(path), Some(name)) if are_weights(path) => {
            if ModelConfig::by_name(name).is_err() {
                let expected = "a model's name, as `kvt models list` has them";
                checks.refuse(key, &format!("{name:?}"), expected);
            }
        }
        (_, Some(_)) => conflict(
            key,
            "a model is named, but `distill.teacher` does not name a file of weights",
            "remove it, or let `distill.teacher` be a `.safetensors` or `.pth` file",
            checks,
        ),
        (_, None) => {}
    }
}

/// Whether a path is one of weights: by its ending, or as the name of published ones.
fn are_weights(path: &Path) -> bool {
    is_of_weights(path) || Published::named(path).is_some()
}

/// Reports a key that conflicts with others.
fn conflict(key: &str, message: &str, help: &str, checks: &mut Checks<'_>) {
    if let Some(place) = checks.set_place(key) {
        let problem = Problem::new(place, message.to_owned());
        checks.problems.push(problem.help(help.to_owned()));
    }
}
