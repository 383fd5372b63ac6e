//! A plan written out key by key, for the run folder and for comparison.

use std::path::Path;

use toml::Value;

use super::choices::{RawAttentionKind, RawDataKind, RawOnError};
use super::plan::{AttentionKind, DataKind, NeighborsSetting, OnErrorSetting, Plan, Workers};

/// The plan as a configuration file with every key that matters; loading it gives the same plan.
#[must_use]
pub fn resolved_toml(plan: &Plan) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, value) in entries(plan) {
        let (head, name) = key.rsplit_once('.').unwrap_or(("", key));
        if head != section {
            text.push_str(&format!("\n[{head}]\n"));
            section = head;
        }
        text.push_str(&format!("{name} = {value}\n"));
    }
    text
}

/// Every key that the plan sets, with its value, section by section.
pub(super) fn entries(plan: &Plan) -> Vec<(&'static str, Value)> {
    let mut entries = Entries(Vec::new());
    entries.add("seed", int(plan.seed));
    add_model(&mut entries, plan);
    if let Some(weights) = &plan.init.weights {
        entries.add("init.weights", path(weights));
        entries.add("init.reset_head", plan.init.reset_head);
    }
    add_data(&mut entries, plan);

    let augment = &plan.augment;
    entries.add("augment.preset", augment.preset.word());
    entries.add("augment.scale", augment.scale.to_vec());
    entries.add("augment.ratio", augment.ratio.to_vec());
    entries.add("augment.hflip", augment.hflip);
    entries.add("augment.padding", augment.padding);
    entries.add("augment.interpolation", augment.interpolation.word());
    entries.add("augment.mean", augment.mean.to_vec());
    entries.add("augment.std", augment.std.to_vec());
    entries.add("augment.crop_pct", augment.crop_pct);

    let optim = &plan.optim;
    entries.add("optim.name", optim.name.word());
    entries.add("optim.lr", optim.lr);
    entries.add("optim.lr_batch", size(optim.lr_batch));
    entries.add("optim.betas", optim.betas.to_vec());
    entries.add("optim.eps", optim.eps);
    entries.add("optim.weight_decay", optim.weight_decay);
    entries.add("optim.clip_norm", optim.clip_norm);

    let schedule = &plan.schedule;
    entries.add("schedule.kind", schedule.kind.word());
    entries.add("schedule.warmup_epochs", schedule.warmup_epochs);
    entries.add("schedule.warmup_lr", schedule.warmup_lr);
    entries.add("schedule.min_lr", schedule.min_lr);
    entries.add("schedule.per", schedule.per.word());

    entries.add("loss.label_smoothing", plan.loss.label_smoothing);
    entries.add("ema.decay", plan.ema.decay);

    let train = &plan.train;
    entries.add("train.epochs", train.epochs);
    entries.add("train.batch_size", size(train.batch_size));
    entries.add("train.accumulate", size(train.accumulate));
    entries.add_some("train.max_steps", train.max_steps.map(int));
    entries.add("train.device", train.device.as_str());
    entries.add("train.eval_every", train.eval_every);

    entries.add("eval.batch_size", size(plan.eval.batch_size));
    entries.add("log.every_steps", int(plan.log.every_steps));
    entries.add("log.tensorboard", plan.log.tensorboard);
    entries.add("checkpoint.every_epochs", plan.checkpoint.every_epochs);
    entries.add("checkpoint.every_steps", int(plan.checkpoint.every_steps));
    entries.add("checkpoint.keep_last", size(plan.checkpoint.keep_last));
    entries.add("run.dir", path(&plan.run.dir));
    entries.0
}

fn add_model(entries: &mut Entries, plan: &Plan) {
    let model = &plan.model;
    entries.add("model.name", model.name.as_str());
    entries.add_some("model.img_size", model.img_size.map(size));
    entries.add_some("model.patch_size", model.patch_size.map(size));
    entries.add_some("model.patch_stride", model.patch_stride.map(size));
    entries.add_some("model.window_size", model.window_size.map(size));
    entries.add_some("model.kv_stride", model.kv_stride.map(size));
    entries.add_some("model.embed_dim", sizes(&model.embed_dim));
    entries.add_some("model.depth", sizes(&model.depth));
    entries.add_some("model.num_heads", sizes(&model.num_heads));
    entries.add_some("model.mlp_ratio", model.mlp_ratio);
    entries.add_some("model.in_chans", model.in_chans.map(size));
    entries.add_some("model.num_classes", model.num_classes.map(size));
    entries.add_some("model.qkv_bias", model.qkv_bias);
    entries.add("model.drop_path", model.drop_path);
    entries.add("model.attn_drop", model.attn_drop);
    match &model.attention.kind {
        AttentionKind::Dense => {
            entries.add("model.attention.kind", RawAttentionKind::Dense.word());
        }
        AttentionKind::Knn {
            neighbors,
            selection,
            implementation,
        } => {
            entries.add("model.attention.kind", RawAttentionKind::Knn.word());
            let list: Vec<Value> = neighbors.iter().copied().map(neighbor).collect();
            let value = match <[Value; 1]>::try_from(list) {
                Ok([only]) => only,
                Err(list) => Value::Array(list),
            };
            entries.add("model.attention.neighbors", value);
            entries.add("model.attention.selection", selection.word());
            entries.add("model.attention.implementation", implementation.word());
        }
    }
    entries.add("model.attention.temperature", model.attention.temperature);
}

fn add_data(entries: &mut Entries, plan: &Plan) {
    let data = &plan.data;
    let kind = match data.kind {
        DataKind::Folder => RawDataKind::Folder,
        DataKind::Shapes(_) => RawDataKind::Shapes,
    };
    entries.add("data.kind", kind.word());
    entries.add("data.path", path(&data.path));
    entries.add("data.train", data.train.as_str());
    entries.add("data.val", data.val.as_str());
    entries.add("data.class_order", data.class_order.word());
    entries.add("data.shuffle", data.shuffle);
    entries.add("data.drop_last", data.drop_last);
    match data.workers {
        Workers::Auto => entries.add("data.workers", "auto"),
        Workers::Count(count) => entries.add("data.workers", size(count)),
    }
    entries.add("data.prefetch", size(data.prefetch));
    match data.on_error {
        OnErrorSetting::Fail => entries.add("data.on_error", RawOnError::Fail.word()),
        OnErrorSetting::Skip { max } => {
            entries.add("data.on_error", RawOnError::Skip.word());
            entries.add("data.max_skipped", size(max));
        }
    }
    entries.add("data.max_pixels", int(data.max_pixels));
    entries.add("data.check_sizes", data.check_sizes);
    if let DataKind::Shapes(shapes) = &data.kind {
        entries.add("data.shapes.image_size", size(shapes.image_size));
        entries.add("data.shapes.classes", size(shapes.classes));
        entries.add("data.shapes.train_per_class", size(shapes.train_per_class));
        entries.add("data.shapes.val_per_class", size(shapes.val_per_class));
        entries.add("data.shapes.clutter", shapes.clutter);
        entries.add("data.shapes.occlusion", shapes.occlusion);
        entries.add("data.shapes.seed", int(shapes.seed));
    }
}

struct Entries(Vec<(&'static str, Value)>);

impl Entries {
    fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    fn add_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

/// One size or one per stage.
fn sizes(list: &[usize]) -> Option<Value> {
    match list {
        [] => None,
        [one] => Some(size(*one)),
        list => Some(Value::Array(list.iter().copied().map(size).collect())),
    }
}

fn neighbor(setting: NeighborsSetting) -> Value {
    match setting {
        NeighborsSetting::Count(count) => size(count),
        NeighborsSetting::Fraction(share) => Value::Float(share),
    }
}

/// TOML's integers end at `i64::MAX`, so whatever came from a file fits.
fn int(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn size(value: usize) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn path(path: &Path) -> Value {
    Value::String(path.display().to_string())
}
