//! `[init]`, and the model of a plan: its configuration, and its weights before training.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use kvt_models::weights::{
    self, LoadOptions, LoadReport, Misfit, Outcome, StateDict, WeightsError,
};
use kvt_models::{Model, ModelConfig};
use kvt_ops::Key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dino::part_of_backbone;
use super::trained::weights_of_run;
use crate::config::{Plan, load_plan};
use crate::data::Source;
use crate::error::TrainError;
use crate::fetch::locate;
use crate::run::{Note, RunDir, Topic};
use kvt_data::fs::write_atomic;
use kvt_data::schema::section;

section! {
    /// What the weights are before training.
    pub struct InitConfig {
        /// Weights to start from, a `.safetensors`, `.pth`, `.pt`, `.bin`, `.ckpt` or `.tar` file, relative to the working directory;
        /// the folder of a run, for its best weights; or a name of `kvt models list --weights`, which are downloaded where they are
        /// missing. Of a student or teacher of DINO the backbone is taken, and of both the teacher's.
        pub weights: Option<PathBuf> = None, "x-default" = "none: random weights";
        /// Whether to leave the classification head as initialised, to train on other classes: `true` where its size differs
        /// from that of the weights, which is an error otherwise, and `"always"` also where it is the same.
        pub reset_head: ResetHead = ResetHead::IfOther(false);
        /// Whether parameters of the attention mechanism start new where the weights lack them or have another size, as after
        /// a change of `model.attention.kind`. The log names them.
        pub reset_mixer: bool = false;
        /// What of the model is not trained, and works as in evaluation.
        pub freeze: Freeze = Freeze::None;
    }
}

/// When training begins with a new classification head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResetHead {
    /// Always: other classes may be as many.
    Always,
    /// With `true` where its size differs from that of the weights, with `false` never.
    #[serde(untagged)]
    IfOther(bool),
}

/// What of a model stays as its first weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Freeze {
    /// Everything is trained.
    None,
    /// Everything but the classification head stays: a linear probe.
    Backbone,
}

/// Rejects a model of other channels than the images.
///
/// # Errors
/// [`TrainError::Channels`].
pub(super) fn check_channels(config: &ModelConfig, images: usize) -> Result<(), TrainError> {
    match config.in_chans() {
        model if model != images => Err(TrainError::Channels { model, images }),
        _ => Ok(()),
    }
}

/// Rejects labels that do not match the model's head, and data with a single class, for which every model is right unless an image may
/// have no label.
///
/// # Errors
/// [`TrainError::Classes`] or [`TrainError::OneClass`].
pub fn check_classes(config: &ModelConfig, source: &Source) -> Result<(), TrainError> {
    let data = || source.root.clone();
    if let [class] = source.classes.as_slice()
        && !source.has_label_sets()
    {
        return Err(TrainError::OneClass {
            data: data(),
            class: class.clone(),
        });
    }
    let (model, found) = (config.num_classes(), source.classes.len());
    if model != found {
        return Err(TrainError::Classes {
            model,
            data: data(),
            found,
        });
    }
    Ok(())
}

/// Builds a model with the plan's seed and precision, and with a frozen backbone if the plan requests it.
///
/// # Errors
/// If the configuration does not describe a model.
pub fn build_model(
    plan: &Plan,
    config: &ModelConfig,
    device: &Device,
) -> Result<Model, TrainError> {
    let model = config
        .init(device, Key::new(plan.seed).named("init"))?
        .with_precision(plan.train.precision);
    Ok(match plan.init.freeze {
        Freeze::None => model,
        Freeze::Backbone => model.freeze_backbone(),
    })
}

/// The weights in a file under the names of a model: of a student or teacher of DINO those of the backbone.
///
/// # Errors
/// As [`weights::read`].
pub fn read_weights(path: &Path) -> Result<StateDict, WeightsError> {
    let state = weights::read(path)?;
    Ok(part_of_backbone(&state).unwrap_or(state))
}

/// The file of what a user gives as weights: a file, the folder of a run, or the name of published weights.
///
/// # Errors
/// As [`locate`], and as [`weights_of_run`] for a folder.
pub fn weight_file(given: &Path) -> Result<PathBuf, TrainError> {
    let path = locate(given)?;
    if path.is_dir() {
        weights_of_run(&RunDir::open(&path)?)
    } else {
        Ok(path)
    }
}

/// The weights in a file, of a run or of a name, for a model of this configuration.
///
/// # Errors
/// As [`weight_file`], [`read_weights`], and [`check_positions`] if they are those of a run.
pub fn read_for(config: &ModelConfig, path: &Path) -> Result<StateDict, TrainError> {
    let file = weight_file(path)?;
    if let Some(run) = run_of(&file) {
        check_positions(&run, config)?;
    }
    Ok(read_weights(&file)?)
}

/// The run of a checkpoint's weight file: `RUN/checkpoints/NAME/FILE`.
pub fn run_of(file: &Path) -> Option<RunDir> {
    let checkpoints = file.parent()?.parent()?;
    let is_named = checkpoints.file_name()? == "checkpoints";
    let run = RunDir::open(checkpoints.parent()?).ok()?;
    is_named.then_some(run)
}

/// Refuses the weights of a run for a model that would misread their positions. A run whose configuration cannot be read does not
/// tell its size.
///
/// # Errors
/// As [`ModelConfig::check_positions_of`].
pub fn check_positions(run: &RunDir, config: &ModelConfig) -> Result<(), TrainError> {
    let plan = load_plan(&run.config(), &[]).ok();
    match plan.and_then(|plan| plan.model.backbone().ok()) {
        Some(own) => Ok(config.check_positions_of(own.img_size())?),
        None => Ok(()),
    }
}

/// A model with the weights in `init.weights`, and a note of what became of them: a warning if some are not used. Without that key, the
/// unchanged model.
///
/// # Errors
/// If the weights cannot be read or do not match, or one holds NaN or an infinite number.
pub(super) fn start_from(
    plan: &InitConfig,
    model: Model,
    notes: &mut Vec<Note>,
) -> Result<Model, TrainError> {
    let Some(path) = &plan.weights else {
        return Ok(model);
    };
    let options = LoadOptions {
        reset_head: plan.reset_head != ResetHead::IfOther(false),
        new_head: plan.reset_head == ResetHead::Always,
        reset_mixer: plan.reset_mixer,
        ..LoadOptions::default()
    };
    let weights = read_for(&model.config(), path)?;
    let refused = |source| refused(path, source, hint);
    let (model, report) = model.load(&weights, options).map_err(refused)?;
    // The first loss would be NaN, and would not say from where.
    model.check_finite().map_err(refused)?;
    let topic = match report.names(Outcome::Unused).next() {
        Some(_) => Topic::Warning,
        None => Topic::Start,
    };
    let message = format!("weights of `{}`: {}", path.display(), report.summary());
    notes.push(Note::new(0, topic, message));
    Ok(model)
}

/// A model with the weights of a file, `path`, which are read already, and the outcome: whatever a plan says, its head is among them.
///
/// # Errors
/// If they do not match.
pub fn with_weights(
    path: &Path,
    weights: &StateDict,
    model: Model,
) -> Result<(Model, LoadReport), TrainError> {
    let loaded = model.load(weights, LoadOptions::default());
    let hint = |misfit| match misfit {
        Misfit::Head => {
            " (only the classification head does not fit: `model.num_classes`, or else the data, says how many classes it has)"
        }
        _ => "",
    };
    loaded.map_err(|source| refused(path, source, hint))
}

/// Weights of a file that do not match, with the hint for where they do not.
pub(super) fn refused(
    path: &Path,
    source: WeightsError,
    hint: fn(Misfit) -> &'static str,
) -> TrainError {
    TrainError::InitWeights {
        path: path.to_owned(),
        hint: match &source {
            WeightsError::Incompatible { misfit, .. } => hint(*misfit),
            _ => "",
        },
        source,
    }
}

/// A way to train nevertheless.
pub(super) fn hint(misfit: Misfit) -> &'static str {
    match misfit {
        Misfit::Head => {
            " (only the classification head does not fit: `init.reset_head = true` starts with a new one)"
        }
        Misfit::Mixers => {
            " (only the attention mechanism does not fit, as with weights of another `model.attention.kind`: `init.reset_mixer = true` starts with a new one)"
        }
        Misfit::HeadAndMixers => {
            " (only the classification head and the attention mechanism do not fit: `init.reset_head = true` and `init.reset_mixer = true` start with new ones)"
        }
        Misfit::Others => "",
    }
}
/// Writes weights as a `.safetensors` file, as [`write_atomic`].
///
/// # Errors
/// As [`write_atomic`], or a weight has a type that the format lacks.
pub fn write_weights(
    path: &Path,
    weights: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let bytes = weights::bytes(path, weights, metadata)?;
    Ok(write_atomic(path, |file| file.write_all(&bytes))?)
}
