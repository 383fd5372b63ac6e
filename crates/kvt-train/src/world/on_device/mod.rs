//! Sums of tensors in the memory of the processes' devices.
//!
//! An [`Engine`] computes the sums, and [`DeviceSums`] ensures that no process waits for one whose engine has failed.
//! [`connect()`] checks whether the devices of a job support it: CUDA GPUs do, through NCCL, in a build with the feature `nccl`.
//! All other tensors are summed in host memory, by the [`World`].

mod choice;
mod connect;
mod engine;
#[cfg(any(feature = "nccl", test))]
mod environment;
#[cfg(feature = "nccl")]
mod memory;
#[cfg(feature = "nccl")]
mod nccl;
mod settle;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use burn::tensor::Tensor;

pub use self::connect::connect;
pub use self::engine::{Engine, EngineError};
use self::settle::settle;
use super::{World, WorldError, held};
use crate::run::Topic;

/// Sums over the processes of a world, on their devices.
#[derive(Debug)]
pub struct DeviceSums {
    world: Arc<dyn World>,
    engine: Mutex<Box<dyn Engine>>,
    /// The library that sums, and its version.
    name: String,
    limit: Duration,
}

impl DeviceSums {
    /// With an engine that all processes of a world have joined, and the name of its library. Sums that take longer than
    /// `limit` are aborted.
    pub(crate) fn new(
        world: Arc<dyn World>,
        engine: Box<dyn Engine>,
        name: String,
        limit: Duration,
    ) -> Self {
        Self {
            world,
            engine: Mutex::new(engine),
            name,
            limit,
        }
    }

    /// The sums of the buckets of an update. They are taken one by one, and this process waits for its device; then it calls
    /// `prepared`, and the sums start as soon as every process is prepared. All processes must pass the same number of buckets with
    /// the same lengths. After a failure no more buckets are taken.
    ///
    /// # Errors
    /// [`WorldError::Sums`] in all processes if one of them failed.
    pub(crate) fn sum(
        &self,
        mut buckets: impl Iterator<Item = Tensor<1>>,
        prepared: impl FnOnce(),
    ) -> Result<Vec<Tensor<1>>, WorldError> {
        let (world, limit) = (&*self.world, self.limit);
        let mut engine = held(&self.engine);
        let own = engine.prepare(&mut buckets).map(|()| true);
        prepared();
        let summed = settle(world, own, &mut || Ok(true), limit).and_then(|()| {
            let started = engine.start().map(|()| false);
            settle(world, started, &mut || engine.poll(), limit)
        });
        summed.inspect_err(|_| engine.abort())?;
        Ok(engine.take())
    }

    /// Aborts everything, for example after a wrong sum.
    fn abort(&self) {
        held(&self.engine).abort();
    }
}

/// How gradients are summed over the processes.
#[derive(Clone, Debug)]
pub enum GradientSum {
    /// In host memory.
    Host,
    /// In host memory although there are CUDA GPUs, with the reason.
    HostInstead(String),
    /// On the devices.
    Device(Arc<DeviceSums>),
}

impl GradientSum {
    /// A message for the log, a warning if there is a better way; `None` if there was no choice.
    pub fn message(&self) -> Option<(Topic, String)> {
        match self {
            Self::Host => None,
            Self::HostInstead(reason) => Some((
                Topic::Warning,
                format!(
                    "gradients are summed in host memory, which is slower than on the GPUs: {reason}"
                ),
            )),
            Self::Device(sums) => {
                let name = &sums.name;
                let message = format!("gradients are summed on the GPUs by {name}");
                Some((Topic::Start, message))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
