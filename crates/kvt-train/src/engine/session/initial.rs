//! What a session is made of, before a run's folder gives it a state.

use std::sync::Arc;

use burn::tensor::Device;
use kvt_models::{ModelConfig, Network};

use super::Session;
use crate::config::Plan;
use crate::device::{self, ResolvedDevice};
use crate::engine::progress::Progress;
use crate::engine::{TrainError, TrainState};
use crate::recipe::{Ema, LossScale, Optimizer, Schedule};
use crate::run::{Note, RunDir};
use crate::splits::Splits;
use crate::task::{Setup, Task, Weights};
use crate::world::World;
use crate::world::on_device::GradientSum;

impl<T: Task> Session<T> {
    /// A session in its initial state, which writes no folder.
    pub(super) fn initial(
        world: Arc<dyn World>,
        plan: Plan,
        device: ResolvedDevice,
        splits: Splits,
        model: ModelConfig,
        weights: Weights,
        mut notes: Vec<Note>,
    ) -> Result<Self, TrainError> {
        let autodiff = device.device.clone().autodiff();
        let state = initial_state(&plan, &model, &splits, weights, &autodiff, &mut notes)?;
        Ok(Self {
            schedule: Schedule::of(&plan, splits.updates_per_epoch(&plan)),
            run: RunDir::of_another(&plan.run.dir),
            plan,
            world,
            splits,
            model,
            device,
            way: GradientSum::Host,
            reader: None,
            state,
            progress: Progress::default(),
            resumed: None,
            notes,
        })
    }
}

/// Height and width.
type Size = (usize, usize);

/// The device of this process, the size of the images, and a warning if the plan's precision is slow there.
pub(super) fn device_and_size<T: Task>(
    world: &dyn World,
    plan: &Plan,
) -> Result<(ResolvedDevice, Size, Option<String>), TrainError> {
    let device = device::resolve_local(&plan.train.device, world.local())?;
    let slow = device.check_precision(plan.train.precision)?;
    let size = T::size(plan, &plan.model.config(None)?);
    Ok((device, size, slow))
}

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
