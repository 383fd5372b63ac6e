//! The first update on a GPU, made by one process per host.
//!
//! For each new size of matrix product, CubeCL times several kernels and keeps the fastest, in memory and in a file that other
//! processes read when they make their first product. Without this warm-up, all processes of a host would time the same kernels
//! at once, disturb each other's measurements, and choose different kernels.

use super::Session;
use super::initial::initial_state;
use crate::data::Loader;
use crate::device::Kind;
use crate::engine::{TrainError, TrainState, UpdateError, UpdateSettings};
use crate::recipe::{Position, Rates};
use crate::task::{Task, Weights};
use crate::world::agree;

impl<T: Task> Session<T> {
    /// Has the first process of each host make an update of a throwaway state, while the others wait. Does nothing on a CPU.
    pub(super) fn warm(&self) -> Result<(), TrainError> {
        if self.device.kind == Kind::Cpu {
            return Ok(());
        }
        let done = match self.world.local().rank {
            0 => self.try_an_update(),
            _ => Ok(()),
        };
        agree(&*self.world, done)
    }

    fn try_an_update(&self) -> Result<(), TrainError> {
        let (plan, device) = (&self.plan, self.device.device.clone().autodiff());
        let weights = Weights::OfCheckpoint;
        let notes = &mut Vec::new();
        let mut state: TrainState<T> =
            initial_state(plan, &self.model, &self.splits, weights, &device, notes)?;
        let settings = UpdateSettings {
            seed: plan.seed,
            rates: Rates::default(),
            clip: plan.optim.clip(),
            ema_decay: 0.0,
        };
        let prepare = T::prepare(plan, &self.splits)?;
        let mut batches = Loader::start(self.splits.train_loading(plan, prepare, 0, 0))?;
        let first = batches.next().map(|batch| Ok(batch?.upload(&device)));
        match state.update(first, Position::default(), settings) {
            Err(UpdateError::Failed(error)) if matches!(*error, TrainError::Execution(_)) => {
                Err(*error)
            }
            // Training itself reports problems with images and losses.
            _ => Ok(()),
        }
    }
}
