//! The network of a run's checkpoint.

use std::path::Path;

use kvt_models::weights;

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
    // A bare name is one of the run's own checkpoints.
    let named = run.checkpoints().join(which);
    let which = match Which::from(Path::new(which)) {
        Which::Path(_) if named.is_dir() => Which::Path(&named),
        which => which,
    };
    let (checkpoint, warning) = Checkpoints::new(run.checkpoints()).load(which)?;
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
