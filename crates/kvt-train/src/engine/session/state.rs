//! The initial state of a plan: its task, its untrained network, its optimizer and its average.

use burn::tensor::Device;
use kvt_models::{ModelConfig, Network};

use crate::config::Plan;
use crate::engine::{TrainError, TrainState};
use crate::recipe::{Ema, LossScale, Optimizer};
use crate::run::Note;
use crate::splits::Splits;
use crate::task::{Setup, Task, Weights};

/// The state of a run before its first update, or before a checkpoint is loaded into it.
pub(super) fn initial_state<T: Task>(
    plan: &Plan,
    model: &ModelConfig,
    splits: &Splits,
    weights: Weights,
    device: &Device,
    notes: &mut Vec<Note>,
) -> Result<TrainState<T>, TrainError> {
    let (task, network) = T::start(&mut Setup {
        plan,
        model,
        splits,
        weights,
        device,
        notes,
    })?;
    Ok(TrainState {
        optimizer: Optimizer::new(&plan.optim, &network),
        ema: (plan.ema.decay > 0.0).then(|| Ema::new(&network, network.frozen())),
        task,
        network,
        loss_scale: LossScale::of(plan.train.precision),
    })
}
