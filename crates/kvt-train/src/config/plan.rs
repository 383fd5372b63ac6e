//! The whole configuration: its sections, each declared next to the code that uses it.

use std::borrow::Cow;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Document;
use super::model_section::ModelSection;
use super::problem::ConfigError;
use crate::analysis::AnalysisConfig;
use crate::augment::{AugmentConfig, DenseConfig, MultiscaleConfig};
use crate::data::DataConfig;
use crate::engine::{EvalConfig, TrainConfig};
use crate::recipe::mix::MixConfig;
use crate::recipe::{DistillConfig, EmaConfig, LossConfig, OptimConfig, ScheduleConfig};
use crate::run::{CheckpointConfig, Environment, LogConfig, ReportConfig, RunConfig, RunDir};
use crate::task::{DinoConfig, InitConfig, LoraConfig, MultiLabelConfig, SegmentConfig, TaskKind};
use kvt_data::text::counted;
use kvt_models::dense::mask_rcnn::MaskRcnnConfig;

/// Configuration of a `kvt` run.
///
/// A plan from a [`Document`](super::Document) is complete and in range: every default is filled in, even if it depends
/// on other keys, and keys that another key disables have their defaults. An `Option` is a real choice ("no weights to
/// start from"), never a value to be completed later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(description = "Configuration of a `kvt` run.")]
#[expect(missing_docs, reason = "sections are documented by their types")]
pub struct Plan {
    /// Another file to start from, relative to this one: tables are merged key by key, everything else is replaced.
    /// Only in files, not with `--set`.
    #[schemars(extend("x-default" = "none"))]
    base: Option<String>,
    /// Seed of everything random: initial weights, order of the images, augmentation, dropout.
    pub seed: u64,
    /// What is learned: the classes of labelled images, several labels for each image (`[multi_label]`), features of images without labels (`[dino]`), the classes of pixels
    /// (`[segment]`), or boxes and masks of objects (`[detect]`).
    pub task: TaskKind,
    pub model: ModelSection,
    pub init: InitConfig,
    pub lora: LoraConfig,
    pub data: DataConfig,
    pub dense: DenseConfig,
    pub multiscale: MultiscaleConfig,
    pub augment: AugmentConfig,
    pub mix: MixConfig,
    pub optim: OptimConfig,
    pub schedule: ScheduleConfig,
    pub loss: LossConfig,
    pub distill: DistillConfig,
    pub multi_label: MultiLabelConfig,
    pub dino: DinoConfig,
    pub segment: SegmentConfig,
    pub detect: MaskRcnnConfig,
    pub ema: EmaConfig,
    pub train: TrainConfig,
    pub eval: EvalConfig,
    pub analysis: AnalysisConfig,
    pub log: LogConfig,
    pub report: ReportConfig,
    pub checkpoint: CheckpointConfig,
    pub run: RunConfig,
}

impl Plan {
    /// The settings by which the images are read: with `task = "detect"`, generated scenes have objects in place of masks, and with
    /// `task = "multi-label"` each image has any number of labels.
    #[must_use]
    pub fn read_data(&self) -> Cow<'_, DataConfig> {
        match self.task {
            TaskKind::Detect => self.data.as_objects(),
            TaskKind::MultiLabel => self.data.as_label_sets(),
            TaskKind::Classify | TaskKind::Dino | TaskKind::Segment => Cow::Borrowed(&self.data),
        }
    }

    /// The length of the run in updates, if it is measured in them.
    #[must_use]
    pub fn updates(&self) -> Option<u64> {
        let updates = self.train.updates;
        (updates > 0).then_some(updates)
    }

    /// Epochs of the whole run: `train.epochs` plus the cool-down. `None` if the run is measured in updates.
    #[must_use]
    pub fn epochs(&self) -> Option<u32> {
        let epochs = self.train.epochs;
        let all = epochs.saturating_add(self.schedule.cooldown_epochs);
        self.updates().is_none().then_some(all)
    }

    /// Epochs of the whole run with so many updates per epoch. `train.updates` may end the last one early.
    #[must_use]
    pub fn epochs_of(&self, updates_per_epoch: u64) -> u32 {
        let updates = self.train.updates;
        let begun = || u32::try_from(updates.div_ceil(updates_per_epoch.max(1)));
        self.epochs().unwrap_or_else(|| begun().unwrap_or(u32::MAX))
    }

    /// The update after which the run ends even within an epoch: that of `train.updates` or `train.max_steps`.
    #[must_use]
    pub fn last_update(&self) -> Option<u64> {
        let ends = [self.updates(), self.train.max_steps];
        ends.into_iter().flatten().min()
    }

    /// The length of the run in words.
    #[must_use]
    pub fn length(&self) -> String {
        match self.updates() {
            Some(updates) => counted(updates, "update"),
            None => counted(self.epochs().unwrap_or(0), "epoch"),
        }
    }
}

/// The plan as a configuration file; loading it gives the same plan.
///
/// # Errors
/// If TOML cannot represent a value, such as a seed above `i64::MAX`.
pub fn resolved_toml(plan: &Plan) -> Result<String, ConfigError> {
    Ok(toml::to_string(plan)?)
}

/// The plan of a configuration file with overrides.
///
/// # Errors
/// If a file cannot be read or is invalid; the error lists all problems.
pub fn load_plan(path: &Path, overrides: &[String]) -> Result<Plan, Box<ConfigError>> {
    let plan = Document::load(path, overrides).and_then(|document| document.plan());
    plan.map_err(Box::new)
}

/// The plan in a run's folder, with overrides. Unless these name other data, a relative `data.path` starts where the run was
/// started, if the data are there still: its images are those that the run was trained on, wherever the command runs. If they are
/// not, the other result is a warning.
///
/// # Errors
/// As [`load_plan`].
pub fn load_run_plan(
    run: &RunDir,
    overrides: &[String],
) -> Result<(Plan, Option<String>), Box<ConfigError>> {
    let mut plan = load_plan(&run.config(), overrides)?;
    let names_data = |text: &String| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let key: String = key.split_whitespace().collect();
        key == "data.path" || key == "data" && value.contains("path")
    };
    let is_own = plan.data.path.is_relative() && !overrides.iter().any(names_data);
    let start = is_own.then(|| Environment::read(&run.environment()).ok());
    let started_in = start.flatten().and_then(|start| start.working_dir);
    let here = std::env::current_dir().ok();
    let Some(started_in) = started_in.filter(|start| here.as_ref() != Some(start)) else {
        return Ok((plan, None));
    };
    let there = started_in.join(&plan.data.path);
    if there.exists() {
        plan.data.path = there;
        return Ok((plan, None));
    }
    let (there, path) = (there.display(), plan.data.path.display());
    let warning = format!(
        "the images of run `{}` are no longer in `{there}`: `{path}` is looked for in this folder; `--set data.path=PATH` names them",
        run.path().display()
    );
    Ok((plan, Some(warning)))
}
