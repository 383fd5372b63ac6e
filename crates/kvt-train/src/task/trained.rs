//! The network of a run's checkpoint.

use std::path::Path;

use kvt_models::{Model, weights};

use super::dino::{TEACHER, load_backbone};
use crate::config::Plan;
use crate::error::TrainError;
use crate::recipe::{EmaReport, Network};
use crate::run::{Checkpoint, Checkpoints, RunDir, Warning, Which};

/// The trained weights, a file of a checkpoint.
pub(crate) const MODEL: &str = "model.safetensors";
/// Their average.
pub(crate) const EMA: &str = "ema.safetensors";

/// Which of a checkpoint's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointWeights {
    /// The trained ones.
    Trained,
    /// Their average.
    Ema,
}

impl CheckpointWeights {
    /// Those that a run is judged by, as `ema.report` says.
    pub fn reported(plan: &Plan) -> Self {
        match plan.ema.report {
            EmaReport::Raw => Self::Trained,
            EmaReport::Ema => Self::Ema,
        }
    }

    /// Their file in a checkpoint.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Trained => MODEL,
            Self::Ema => EMA,
        }
    }
}

/// The backbone of student or teacher of a run of DINO in a model, whose classification head stays as it is.
///
/// # Errors
/// If there is no such checkpoint, it is broken, or belongs to another model or task.
pub fn load_checkpoint_backbone(
    run: &RunDir,
    which: &str,
    role: DinoRole,
    model: Model,
) -> Result<(Model, Option<Warning>), TrainError> {
    let (checkpoint, warning) = checkpoint(run, which)?;
    let file = match role {
        DinoRole::Student => MODEL.to_owned(),
        DinoRole::Teacher => task_file(TEACHER),
    };
    // Files that are not the checkpoint's own were not verified.
    if !checkpoint.has(&file) {
        let path = checkpoint.path().to_owned();
        return Err(TrainError::NoTaskState { path, file });
    }
    let (model, _) = load_backbone(model, &weights::read(&checkpoint.file(&file))?)?;
    Ok((model, warning))
}

/// Which of the two networks of DINO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DinoRole {
    /// What is trained.
    Student,
    /// Its average, which is better.
    Teacher,
}

/// The file of a checkpoint with a state dict of the task, which cannot be one of the run's own.
pub(crate) fn task_file(name: &str) -> String {
    format!("task.{name}.safetensors")
}

/// A checkpoint of a run: `last`, `best`, a name in its folder, or a path.
fn checkpoint(run: &RunDir, which: &str) -> Result<(Checkpoint, Option<Warning>), TrainError> {
    // A bare name is one of the run's own checkpoints.
    let named = run.checkpoints().join(which);
    let which = match Which::from(Path::new(which)) {
        Which::Path(_) if named.is_dir() => Which::Path(&named),
        which => which,
    };
    Ok(Checkpoints::new(run.checkpoints()).load(which)?)
}

/// The weights of a run's checkpoint (`last`, `best` or a checkpoint's folder) in a network.
///
/// # Errors
/// If there is no such checkpoint, it is broken, belongs to another model, or has no average where that
/// is asked for.
pub fn load_checkpoint_model<N: Network>(
    run: &RunDir,
    which: &str,
    weights: CheckpointWeights,
    network: N,
) -> Result<(N, Option<Warning>), TrainError> {
    let (checkpoint, warning) = checkpoint(run, which)?;
    Ok((load_network(&checkpoint, weights, network)?, warning))
}

/// The weights of a checkpoint in a network.
pub(crate) fn load_network<N: Network>(
    checkpoint: &Checkpoint,
    weights: CheckpointWeights,
    network: N,
) -> Result<N, TrainError> {
    let file = weights.file();
    // Files that are not the checkpoint's own were not verified.
    if weights == CheckpointWeights::Ema && !checkpoint.has(EMA) {
        return Err(TrainError::NoEma {
            path: checkpoint.path().to_owned(),
        });
    }
    let (network, unused) = network.load_state_dict(&weights::read(&checkpoint.file(file))?)?;
    if unused.is_empty() {
        return Ok(network);
    }
    Err(TrainError::Surplus {
        path: checkpoint.path().to_owned(),
        names: unused.join("`, `"),
    })
}
