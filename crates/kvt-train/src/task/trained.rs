//! The network of a run's checkpoint.

use std::path::{Path, PathBuf};

use kvt_models::weights::{self, StateDict};
use kvt_models::{Model, Network};

use super::TaskKind;
use super::dino::{TEACHER, load_backbone};
use crate::config::load_plan;
use crate::error::TrainError;
use crate::recipe::EmaReport;
use crate::run::{Checkpoint, Checkpoints, RunDir, RunError, Which};

/// The trained weights: a file of a checkpoint.
pub(crate) const MODEL: &str = "model.safetensors";
/// The average of the weights.
pub(crate) const EMA: &str = "ema.safetensors";
/// The factors of low-rank adaptation, which both of the above have merged; and those of the average.
const LORA: &str = "lora.safetensors";
const EMA_LORA: &str = "ema.lora.safetensors";
/// The weights that they adapt, without them. The merged weights less the product would be rounded.
const ADAPTED: &str = "adapted.safetensors";

impl EmaReport {
    /// Their file in a checkpoint.
    pub fn file(self) -> &'static str {
        match self {
            Self::Raw => MODEL,
            Self::Ema => EMA,
        }
    }

    /// The files of [`Model::factors`] and [`Model::adapted`] in a checkpoint.
    pub(crate) fn apart(self) -> [&'static str; 2] {
        match self {
            Self::Raw => [LORA, ADAPTED],
            Self::Ema => [EMA_LORA, ADAPTED],
        }
    }
}

/// A model with the backbone of the student or teacher of a DINO run, and an unchanged classification head.
///
/// # Errors
/// If there is no such checkpoint, it is damaged, or belongs to another model or task.
pub fn load_checkpoint_backbone(
    run: &RunDir,
    which: &str,
    role: DinoRole,
    model: Model,
) -> Result<(Model, Option<String>), TrainError> {
    let (checkpoint, warning) = checkpoint(run, which)?;
    let file = match role {
        DinoRole::Student => MODEL.to_owned(),
        DinoRole::Teacher => task_file(TEACHER),
    };
    let state = read_listed(&checkpoint, &file, OTHER_TASK)?;
    let (model, _) = load_backbone(model, &state)?;
    Ok((model, warning))
}

/// Why a checkpoint lacks a state of the task, the factors, or the average.
pub(crate) const OTHER_TASK: &str = "it was written by a run with another task";
const NO_LORA: &str = "it was written by a run with `lora.rank = 0`";
const NO_EMA: &str = "its run kept no EMA (`ema.decay = 0`); evaluate it without `--ema`, or start a new run from its weights with \
                      `init.weights`";

/// The tensors of a file of a checkpoint, and `why` it may lack it. Files that are not listed in it were not verified.
pub(crate) fn read_listed(
    checkpoint: &Checkpoint,
    file: &str,
    why: &'static str,
) -> Result<StateDict, TrainError> {
    if !checkpoint.has(file) {
        let (path, file) = (checkpoint.path().to_owned(), file.to_owned());
        return Err(TrainError::NoFile { path, file, why });
    }
    Ok(weights::read(&checkpoint.file(file))?)
}

/// One of the two networks of DINO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DinoRole {
    /// The trained network.
    Student,
    /// The average of the student, which performs better.
    Teacher,
}

/// The file of a checkpoint with a state dict of the task, whose name cannot conflict with one of the run's own.
pub(crate) fn task_file(name: &str) -> String {
    format!("task.{name}.safetensors")
}

/// The file of a run's best weights, or of its last if none were evaluated: the average if the run reports that, with DINO the
/// teacher's.
///
/// # Errors
/// If the run has no checkpoint, a damaged one, or a configuration that cannot be read.
pub fn weights_of_run(run: &RunDir) -> Result<PathBuf, TrainError> {
    let plan = load_plan(&run.config(), &[])?;
    let checkpoints = Checkpoints::new(run);
    let found = match checkpoints.load(Which::Best) {
        Err(RunError::NoCheckpoint { .. }) => checkpoints.load(Which::Last),
        found => found,
    };
    let (checkpoint, _) = found?;
    Ok(match plan.task {
        TaskKind::Dino => checkpoint.file(&task_file(TEACHER)),
        _ => checkpoint.file(plan.ema.report.file()),
    })
}

/// A checkpoint of a run: `last`, `best`, a name in its folder, or a path.
fn checkpoint(run: &RunDir, which: &str) -> Result<(Checkpoint, Option<String>), TrainError> {
    // A bare name means one of the run's own checkpoints.
    let named = run.checkpoints().join(which);
    let which = match Which::from(Path::new(which)) {
        Which::Path(_) if named.is_dir() => Which::Path(&named),
        which => which,
    };
    Ok(Checkpoints::new(run).load(which)?)
}

/// A network with the weights of a run's checkpoint (`last`, `best` or a checkpoint's folder).
///
/// # Errors
/// If there is no such checkpoint, it is damaged, belongs to another model, or does not contain the requested average.
pub fn load_checkpoint_model<N: Network>(
    run: &RunDir,
    which: &str,
    weights: EmaReport,
    network: N,
) -> Result<(N, Option<String>), TrainError> {
    let (checkpoint, warning) = checkpoint(run, which)?;
    Ok((load_network(&checkpoint, weights, network)?, warning))
}

/// A network with the weights of a checkpoint.
pub(crate) fn load_network<N: Network>(
    checkpoint: &Checkpoint,
    weights: EmaReport,
    network: N,
) -> Result<N, TrainError> {
    // Every checkpoint has the trained weights.
    let state = read_listed(checkpoint, weights.file(), NO_EMA)?;
    let (mut network, unused) = network.load_state_dict(&state)?;
    drop(state);
    if !unused.is_empty() {
        return Err(TrainError::Surplus {
            path: checkpoint.path().to_owned(),
            names: unused.join("`, `"),
        });
    }
    if let Some(model) = network.lora_mut() {
        let read = |file: &str| read_listed(checkpoint, file, NO_LORA);
        let [factors, adapted] = weights.apart();
        model.set_factors(&read(factors)?, &read(adapted)?)?;
    }
    Ok(network)
}
