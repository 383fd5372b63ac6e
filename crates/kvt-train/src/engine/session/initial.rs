//! What a session is made of, before a run's folder gives it a state.

use std::sync::Arc;

use burn::tensor::Device;
use kvt_models::{ModelConfig, Network};

use super::Session;
use crate::config::Plan;
use crate::device;
use crate::engine::progress::Progress;
use crate::engine::{TrainError, TrainState};
use crate::recipe::{Ema, LossScale, Optimizer};
use crate::run::{Note, RunDir, Topic};
use crate::splits::Splits;
use crate::task::{Setup, Task, Weights};
use crate::world::World;
use crate::world::on_device::GradientSum;

/// Height and width.
type Size = (usize, usize);

impl<T: Task> Session<T> {
    /// A session in its initial state, which writes no folder, with the images that `open` gives for their height and width. It
    /// has the notes about its weights and, in a new run, about a precision that is slow on the device.
    pub(super) fn initial(
        world: Arc<dyn World>,
        plan: Plan,
        weights: Weights,
        open: impl FnOnce(&Plan, Size) -> Result<Splits, TrainError>,
    ) -> Result<Self, TrainError> {
        let device = device::resolve_local(&plan.train.device, world.local())?;
        let slow = device.check_precision(plan.train.precision)?;
        let slow = slow.filter(|_| weights == Weights::OfPlan);
        let warning = |text| Note::new(0, Topic::Warning, text);
        let mut notes: Vec<Note> = slow.map(warning).into_iter().collect();
        let size = T::size(&plan, &plan.model.config(None)?);
        let views = T::views(&plan, size)?;
        let splits = open(&plan, size)?.with_train_views(views);
        let model = T::model(&plan, &splits)?;
        let autodiff = device.device.clone().autodiff();
        let state = initial_state(&plan, &model, &splits, weights, &autodiff, &mut notes)?;
        Ok(Self {
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
            began: None,
        })
    }

    /// Puts notes before those that there are, followed by the warnings about the images, and by others.
    pub(super) fn note_first(&mut self, mut notes: Vec<Note>, others: Vec<String>) {
        let warnings = self.splits.warnings().into_iter().chain(others);
        notes.extend(warnings.map(|text| Note::new(0, Topic::Warning, text)));
        notes.append(&mut self.notes);
        self.notes = notes;
    }
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
