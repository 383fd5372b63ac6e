//! The second stage: from a document to a [`Plan`], with every number in its range.

use std::fmt::{Debug, Display};
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

mod data;
mod model;

use super::document::Document;
use super::plan::{
    CheckpointPlan, EmaPlan, EvalPlan, InitPlan, LogPlan, LossPlan, ModelPlan, OptimPlan, Plan,
    RunPlan, SchedulePlan, TrainPlan,
};
use super::problem::{ConfigError, Problem};
use super::raw::RawSizes;
use crate::device::{NAMES, Wanted};

const POSITIVE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Unbounded);
const SHARE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1.0));
/// The ends of what is computed in 32 bits, with room for a product of a few such numbers.
const LARGEST: f64 = 1e30;
const SMALLEST: f64 = 1e-30;
/// Images of a forward pass, and passes of an update: their product counts the images of an update.
const LARGEST_BATCH: usize = 1 << 16;

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
            checkpoint: checks.checkpoint(),
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

    fn optim(&mut self) -> OptimPlan {
        let raw = &self.document.raw.optim;
        OptimPlan {
            name: raw.name,
            lr: self.number(
                "optim.lr",
                raw.lr,
                (Bound::Excluded(0.0), Bound::Included(LARGEST)),
            ),
            lr_batch: raw.lr_batch,
            betas: self.numbers("optim.betas", raw.betas, 0.0..1.0),
            eps: self.number("optim.eps", raw.eps, SMALLEST..=LARGEST),
            weight_decay: self.number("optim.weight_decay", raw.weight_decay, 0.0..=LARGEST),
            clip_norm: self.number("optim.clip_norm", raw.clip_norm, 0.0..),
        }
    }

    fn schedule(&mut self) -> SchedulePlan {
        let raw = &self.document.raw.schedule;
        SchedulePlan {
            kind: raw.kind,
            warmup_epochs: self.number("schedule.warmup_epochs", raw.warmup_epochs, 0.0..),
            warmup_lr: self.number("schedule.warmup_lr", raw.warmup_lr, 0.0..=LARGEST),
            min_lr: self.number("schedule.min_lr", raw.min_lr, 0.0..=LARGEST),
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
            batch_size: self.count("train.batch_size", raw.batch_size, 1..=LARGEST_BATCH),
            accumulate: self.count("train.accumulate", raw.accumulate, 1..=LARGEST_BATCH),
            max_steps: raw
                .max_steps
                .map(|steps| self.count("train.max_steps", steps, 1..)),
            device: self.device(&raw.device),
            eval_every: raw.eval_every,
        }
    }

    /// A name that some machine may have; whether this one has it, only those ask who use it.
    fn device(&mut self, name: &str) -> String {
        if name.parse::<Wanted>().is_err() {
            self.refuse("train.device", format_args!("{name:?}"), NAMES);
        }
        name.to_owned()
    }

    fn eval(&mut self, train: &TrainPlan) -> EvalPlan {
        // Without gradients twice as many images fit.
        let largest = 2 * LARGEST_BATCH;
        let given = self.document.raw.eval.batch_size;
        let given = given.map(|size| self.count("eval.batch_size", size, 1..=largest));
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

    fn checkpoint(&mut self) -> CheckpointPlan {
        let raw = &self.document.raw.checkpoint;
        CheckpointPlan {
            every_epochs: raw.every_epochs,
            every_steps: raw.every_steps,
            keep_last: self.count("checkpoint.keep_last", raw.keep_last, 1..),
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
