//! The second stage: from a document to a [`Plan`], with every number in its range.

use std::fmt::{Debug, Display};
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

use super::choices::{AugmentPreset, RawAttentionKind, RawDataKind, RawOnError};
use super::document::{Document, closest};
use super::plan::{
    AttentionKind, AttentionPlan, AugmentPlan, CheckpointPlan, DataKind, DataPlan, EmaPlan,
    EvalPlan, InitPlan, LogPlan, LossPlan, ModelPlan, NeighborsSetting, OnErrorSetting, OptimPlan,
    Plan, RunPlan, SchedulePlan, ShapesPlan, TrainPlan, Workers,
};
use super::problem::{ConfigError, Problem};
use super::raw::{RawNeighbor, RawNeighbors, RawSizes, RawWorkers};

const POSITIVE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Unbounded);
const SHARE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1.0));

impl Document {
    /// Checks every value and fills in what is missing. `known_models` are the names that `model.name` may have.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every value that is out of its range or missing.
    pub fn plan(&self, known_models: &[&str]) -> Result<Plan, ConfigError> {
        let mut checks = Checks::new(self);
        let train = checks.train();
        let plan = Plan {
            seed: self.raw.seed,
            model: checks.model(known_models),
            init: checks.init(),
            data: checks.data(),
            augment: checks.augment(),
            optim: checks.optim(),
            schedule: checks.schedule(),
            loss: checks.loss(),
            ema: checks.ema(),
            eval: checks.eval(&train),
            train,
            log: checks.log(),
            checkpoint: CheckpointPlan {
                every_epochs: self.raw.checkpoint.every_epochs,
                every_steps: self.raw.checkpoint.every_steps,
            },
            run: checks.run(),
        };
        checks.finish(plan)
    }

    /// Only `[model]`, for what needs a model but no data.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), for the keys of `[model]`.
    pub fn model_plan(&self, known_models: &[&str]) -> Result<ModelPlan, ConfigError> {
        let mut checks = Checks::new(self);
        let model = checks.model(known_models);
        checks.finish(model)
    }
}

/// Collects problems, so that one run reports them all; what it returns meanwhile is used only if there are none.
struct Checks<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl<'a> Checks<'a> {
    fn new(document: &'a Document) -> Self {
        Self {
            document,
            problems: Vec::new(),
        }
    }

    fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() {
            Ok(value)
        } else {
            Err(ConfigError::invalid(self.problems))
        }
    }

    fn refuse(&mut self, key: &str, value: impl Display, expected: &str) {
        self.problems.push(Problem::new(
            self.document.place(key),
            format!("invalid value `{value}` for `{key}`: expected {expected}"),
        ));
    }

    fn missing(&mut self, key: &str, help: String) {
        let problem = Problem::new(self.document.place(key), format!("missing key `{key}`"));
        self.problems.push(problem.help(help));
    }

    /// A float in a range; never NaN or infinite.
    fn number(&mut self, key: &str, value: f64, range: impl RangeBounds<f64>) -> f64 {
        if !value.is_finite() || !range.contains(&value) {
            self.refuse(key, format_args!("{value:?}"), &describe(&range));
        }
        value
    }

    fn numbers<const N: usize>(
        &mut self,
        key: &str,
        values: [f64; N],
        range: impl RangeBounds<f64> + Clone,
    ) -> [f64; N] {
        values.map(|value| self.number(key, value, range.clone()))
    }

    /// A smallest and a largest value.
    fn pair(
        &mut self,
        key: &str,
        values: [f64; 2],
        range: impl RangeBounds<f64> + Clone,
    ) -> [f64; 2] {
        let [low, high] = self.numbers(key, values, range);
        if low > high {
            let shown = format!("[{low:?}, {high:?}]");
            self.refuse(key, shown, "the smaller value first");
        }
        [low, high]
    }

    fn count<T: PartialOrd + Display + Debug>(
        &mut self,
        key: &str,
        value: T,
        range: impl RangeBounds<T>,
    ) -> T {
        if !range.contains(&value) {
            self.refuse(key, &value, &describe(&range));
        }
        value
    }

    fn size(&mut self, key: &str, value: Option<usize>) -> Option<usize> {
        value.map(|value| self.count(key, value, 1..))
    }

    /// One size or one per stage; empty where there is none.
    fn sizes(&mut self, key: &str, value: Option<&RawSizes>) -> Vec<usize> {
        let sizes = match value {
            None => return Vec::new(),
            Some(RawSizes::One(size)) => vec![*size],
            Some(RawSizes::PerStage(sizes)) => sizes.clone(),
        };
        if sizes.is_empty() {
            self.refuse(key, "[]", "one number, or one per stage of the model");
        }
        for size in &sizes {
            self.count(key, *size, 1..);
        }
        sizes
    }

    fn text(&mut self, key: &str, value: &str) -> String {
        if value.trim().is_empty() {
            self.refuse(key, format_args!("{value:?}"), "a text that is not empty");
        }
        value.to_owned()
    }

    fn model(&mut self, known_models: &[&str]) -> ModelPlan {
        let raw = &self.document.raw.model;
        ModelPlan {
            name: self.model_name(raw.name.as_deref(), known_models),
            img_size: self.size("model.img_size", raw.img_size),
            patch_size: self.size("model.patch_size", raw.patch_size),
            patch_stride: self.size("model.patch_stride", raw.patch_stride),
            window_size: self.size("model.window_size", raw.window_size),
            kv_stride: self.size("model.kv_stride", raw.kv_stride),
            embed_dim: self.sizes("model.embed_dim", raw.embed_dim.as_ref()),
            depth: self.sizes("model.depth", raw.depth.as_ref()),
            num_heads: self.sizes("model.num_heads", raw.num_heads.as_ref()),
            mlp_ratio: raw
                .mlp_ratio
                .map(|ratio| self.number("model.mlp_ratio", ratio, POSITIVE)),
            in_chans: self.size("model.in_chans", raw.in_chans),
            num_classes: self.size("model.num_classes", raw.num_classes),
            qkv_bias: raw.qkv_bias,
            drop_path: self.number("model.drop_path", raw.drop_path, 0.0..1.0),
            attn_drop: self.number("model.attn_drop", raw.attn_drop, 0.0..1.0),
            attention: self.attention(),
        }
    }

    fn model_name(&mut self, name: Option<&str>, known_models: &[&str]) -> String {
        let Some(name) = name else {
            let example = known_models.first().unwrap_or(&"deit_tiny_patch16_224");
            let help = format!("add `name = \"{example}\"` under `[model]`");
            self.missing("model.name", help);
            return String::new();
        };
        if !known_models.contains(&name) {
            let place = self.document.place("model.name");
            let problem = Problem::new(place, format!("unknown model `{name}`"));
            self.problems
                .push(match closest(name, known_models.iter().copied()) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("`kvt models list` has those there are"),
                });
        }
        name.to_owned()
    }

    fn attention(&mut self) -> AttentionPlan {
        let raw = &self.document.raw.model.attention;
        // Checked for dense attention too: a mistake must not wait for the day it is switched on.
        let neighbors = self.neighbors(&raw.neighbors);
        // An explicit `kind = "dense"` may switch off the neighbours of a base; silence may not.
        if self.document.set_place("model.attention.kind").is_none() {
            for key in ["neighbors", "selection", "implementation"] {
                let place = self.document.set_place(&format!("model.attention.{key}"));
                if let Some(place) = place {
                    let message = format!("`{key}` is set, but nothing says which attention");
                    let help = "add `kind = \"knn\"` under `[model.attention]`, or \"dense\"";
                    self.problems.push(Problem::new(place, message).help(help));
                }
            }
        }
        AttentionPlan {
            kind: match raw.kind {
                RawAttentionKind::Dense => AttentionKind::Dense,
                RawAttentionKind::Knn => AttentionKind::Knn {
                    neighbors,
                    selection: raw.selection,
                    implementation: raw.implementation,
                },
            },
            temperature: self.number("model.attention.temperature", raw.temperature, POSITIVE),
        }
    }

    fn neighbors(&mut self, raw: &RawNeighbors) -> Vec<NeighborsSetting> {
        const KEY: &str = "model.attention.neighbors";
        let entries = match raw {
            RawNeighbors::One(entry) => std::slice::from_ref(entry),
            RawNeighbors::PerStage(entries) => entries.as_slice(),
        };
        if entries.is_empty() {
            self.refuse(KEY, "[]", "one entry, or one per stage of the model");
        }
        let mut settings = Vec::with_capacity(entries.len());
        for entry in entries {
            match *entry {
                RawNeighbor::Count(count) => match usize::try_from(count) {
                    Ok(count) if count > 0 => settings.push(NeighborsSetting::Count(count)),
                    _ => self.refuse(KEY, count, "a count of at least 1"),
                },
                RawNeighbor::Fraction(share) => {
                    if !SHARE.contains(&share) {
                        let expected = "a share of the keys in (0, 1], or an integer for a count";
                        self.refuse(KEY, format_args!("{share:?}"), expected);
                    }
                    settings.push(NeighborsSetting::Fraction(share));
                }
            }
        }
        settings
    }

    fn init(&mut self) -> InitPlan {
        let weights = self.document.raw.init.weights.as_ref().map(PathBuf::from);
        if let Some(path) = &weights {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if !matches!(ending, Some("safetensors" | "pth")) {
                let expected = "a `.safetensors` or `.pth` file";
                self.refuse("init.weights", path.display(), expected);
            }
        }
        InitPlan {
            reset_head: weights.is_some() && self.document.raw.init.reset_head,
            weights,
        }
    }

    fn data(&mut self) -> DataPlan {
        let raw = &self.document.raw.data;
        let shapes = self.shapes();
        let path = match (&raw.path, raw.kind) {
            (Some(path), _) => self.text("data.path", path),
            (None, RawDataKind::Shapes) => "data/shapes".to_owned(),
            (None, RawDataKind::Folder) => {
                let help = "add `path = \"FOLDER\"` under `[data]`, with images at \
                            `FOLDER/train/<class>/*`, or `kind = \"shapes\"` for generated images";
                self.missing("data.path", help.to_owned());
                String::new()
            }
        };
        DataPlan {
            kind: match raw.kind {
                RawDataKind::Folder => DataKind::Folder,
                RawDataKind::Shapes => DataKind::Shapes(shapes),
            },
            path: PathBuf::from(path),
            train: self.text("data.train", &raw.train),
            val: self.text("data.val", &raw.val),
            class_order: raw.class_order,
            shuffle: raw.shuffle,
            drop_last: raw.drop_last,
            workers: match raw.workers {
                RawWorkers::Word(_) => Workers::Auto,
                RawWorkers::Count(count) => {
                    Workers::Count(self.count("data.workers", count, ..=1024))
                }
            },
            prefetch: self.count("data.prefetch", raw.prefetch, 1..),
            on_error: match raw.on_error {
                RawOnError::Fail => OnErrorSetting::Fail,
                RawOnError::Skip => OnErrorSetting::Skip {
                    max: raw.max_skipped,
                },
            },
        }
    }

    fn shapes(&mut self) -> ShapesPlan {
        let raw = &self.document.raw.data.shapes;
        ShapesPlan {
            image_size: self.count("data.shapes.image_size", raw.image_size, 8..),
            classes: self.count("data.shapes.classes", raw.classes, 2..=10),
            train_per_class: self.count("data.shapes.train_per_class", raw.train_per_class, 1..),
            val_per_class: self.count("data.shapes.val_per_class", raw.val_per_class, 1..),
            clutter: self.number("data.shapes.clutter", raw.clutter, 0.0..=1.0),
            occlusion: self.number("data.shapes.occlusion", raw.occlusion, 0.0..=1.0),
            seed: raw.seed,
        }
    }

    fn augment(&mut self) -> AugmentPlan {
        let raw = &self.document.raw.augment;
        let hflip = raw.hflip.unwrap_or(match raw.preset {
            AugmentPreset::Imagenet | AugmentPreset::Cifar => 0.5,
            AugmentPreset::None => 0.0,
        });
        let crop_pct = raw.crop_pct.unwrap_or(match raw.preset {
            AugmentPreset::Imagenet => 0.875,
            AugmentPreset::Cifar | AugmentPreset::None => 1.0,
        });
        AugmentPlan {
            preset: raw.preset,
            scale: self.pair("augment.scale", raw.scale, SHARE),
            ratio: self.pair("augment.ratio", raw.ratio, POSITIVE),
            hflip: self.number("augment.hflip", hflip, 0.0..=1.0),
            padding: raw.padding,
            interpolation: raw.interpolation,
            mean: self.numbers("augment.mean", raw.mean, ..),
            std: self.numbers("augment.std", raw.std, POSITIVE),
            crop_pct: self.number("augment.crop_pct", crop_pct, SHARE),
        }
    }

    fn optim(&mut self) -> OptimPlan {
        let raw = &self.document.raw.optim;
        OptimPlan {
            name: raw.name,
            lr: self.number("optim.lr", raw.lr, POSITIVE),
            lr_batch: raw.lr_batch,
            betas: self.numbers("optim.betas", raw.betas, 0.0..1.0),
            eps: self.number("optim.eps", raw.eps, POSITIVE),
            weight_decay: self.number("optim.weight_decay", raw.weight_decay, 0.0..),
            clip_norm: self.number("optim.clip_norm", raw.clip_norm, 0.0..),
        }
    }

    fn schedule(&mut self) -> SchedulePlan {
        let raw = &self.document.raw.schedule;
        SchedulePlan {
            kind: raw.kind,
            warmup_epochs: self.number("schedule.warmup_epochs", raw.warmup_epochs, 0.0..),
            warmup_lr: self.number("schedule.warmup_lr", raw.warmup_lr, 0.0..),
            min_lr: self.number("schedule.min_lr", raw.min_lr, 0.0..),
            per: raw.per,
        }
    }

    fn loss(&mut self) -> LossPlan {
        let smoothing = self.document.raw.loss.label_smoothing;
        LossPlan {
            label_smoothing: self.number("loss.label_smoothing", smoothing, 0.0..1.0),
        }
    }

    fn ema(&mut self) -> EmaPlan {
        EmaPlan {
            decay: self.number("ema.decay", self.document.raw.ema.decay, 0.0..1.0),
        }
    }

    fn train(&mut self) -> TrainPlan {
        let raw = &self.document.raw.train;
        TrainPlan {
            epochs: self.count("train.epochs", raw.epochs, 1..),
            batch_size: self.count("train.batch_size", raw.batch_size, 1..),
            accumulate: self.count("train.accumulate", raw.accumulate, 1..),
            max_steps: raw
                .max_steps
                .map(|steps| self.count("train.max_steps", steps, 1..)),
            device: self.text("train.device", &raw.device),
            eval_every: raw.eval_every,
        }
    }

    fn eval(&mut self, train: &TrainPlan) -> EvalPlan {
        let given = self.size("eval.batch_size", self.document.raw.eval.batch_size);
        EvalPlan {
            batch_size: given.unwrap_or_else(|| train.batch_size.saturating_mul(2)),
        }
    }

    fn log(&mut self) -> LogPlan {
        let raw = &self.document.raw.log;
        LogPlan {
            every_steps: self.count("log.every_steps", raw.every_steps, 1..),
            tensorboard: raw.tensorboard,
        }
    }

    fn run(&mut self) -> RunPlan {
        RunPlan {
            dir: match &self.document.raw.run.dir {
                Some(dir) => PathBuf::from(self.text("run.dir", dir)),
                None => Path::new("runs").join(self.document.name()),
            },
        }
    }
}

/// A range in words.
fn describe<T: Debug>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Unbounded, Bound::Unbounded) => "a finite number".to_owned(),
        (Bound::Included(low), Bound::Unbounded) => format!("at least {low:?}"),
        (Bound::Excluded(low), Bound::Unbounded) => format!("more than {low:?}"),
        (Bound::Unbounded, Bound::Included(high)) => format!("at most {high:?}"),
        (Bound::Unbounded, Bound::Excluded(high)) => format!("less than {high:?}"),
        (low, high) => {
            let low = match low {
                Bound::Included(low) => format!("[{low:?}"),
                Bound::Excluded(low) => format!("({low:?}"),
                Bound::Unbounded => String::new(),
            };
            let high = match high {
                Bound::Included(high) => format!("{high:?}]"),
                Bound::Excluded(high) => format!("{high:?})"),
                Bound::Unbounded => String::new(),
            };
            format!("a value in {low}, {high}")
        }
    }
}
