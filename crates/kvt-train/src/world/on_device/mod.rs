//! Sums of tensors where they lie: on the devices of the processes.
//!
//! An [`Engine`] adds up, and [`DeviceSums`] sees to it that no process waits for one whose engine has failed. Whether the
//! devices of a job can do so is found out by [`connect()`]: CUDA GPUs can, by NCCL, in a build with the feature `nccl`. All
//! other tensors are summed in host memory, by the [`World`].

mod choice;
mod connect;
#[cfg(feature = "nccl")]
mod memory;
#[cfg(feature = "nccl")]
mod nccl;
mod settle;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Tensor;

pub use self::connect::connect;
use self::settle::settle;
use super::{World, WorldError};

/// A failure of a library that sums on devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{library}: {reason}")]
pub struct EngineError {
    /// The library.
    pub library: &'static str,
    /// What it says.
    pub reason: String,
}

/// What adds up tensors on the devices of the processes, as one of them sees it.
pub trait Engine: Debug + Send {
    /// Starts the sum of a bucket over the processes, behind those that were started before. The tensor that comes back
    /// holds it as soon as [`poll`](Self::poll) says that all is done, and must not be read before.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn start(&mut self, bucket: Tensor<1>) -> Result<Tensor<1>, EngineError>;

    /// Whether all that was started is done. It does not wait for other processes.
    ///
    /// # Errors
    /// If the device or the library has failed.
    fn poll(&mut self) -> Result<bool, EngineError>;

    /// Gives up what was started, also where other processes never join in. Nothing is started afterwards.
    fn abort(&mut self);
}

/// Sums over the processes of a world, on their devices.
#[derive(Debug)]
pub struct DeviceSums {
    world: Arc<dyn World>,
    engine: Mutex<Box<dyn Engine>>,
    name: String,
}

impl DeviceSums {
    /// By an engine that all processes of a world have joined; `name` is its library and version.
    pub fn new(world: Arc<dyn World>, engine: Box<dyn Engine>, name: String) -> Self {
        Self {
            world,
            engine: Mutex::new(engine),
            name,
        }
    }

    /// The library that sums, and its version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins with the buckets of an update. All processes must start as many, of the same lengths, and finish.
    pub(crate) fn begin(&self) -> Exchange<'_> {
        Exchange {
            world: &*self.world,
            engine: self.engine.lock().unwrap_or_else(PoisonError::into_inner),
            sums: Vec::new(),
            failed: None,
        }
    }
}

/// Buckets on their way.
pub(crate) struct Exchange<'a> {
    world: &'a dyn World,
    engine: MutexGuard<'a, Box<dyn Engine>>,
    sums: Vec<Tensor<1>>,
    failed: Option<EngineError>,
}

impl Exchange<'_> {
    /// Starts the next bucket, which is on its way while the one after it is packed. After a failure nothing is packed any
    /// more; [`finish`](Self::finish) tells the others.
    pub(crate) fn start(&mut self, pack: impl FnOnce() -> Tensor<1>) {
        if self.failed.is_none() {
            match self.engine.start(pack()) {
                Ok(sum) => self.sums.push(sum),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Waits for the sums of all buckets.
    ///
    /// # Errors
    /// [`WorldError::Sums`] in all processes if one of them failed.
    pub(crate) fn finish(self) -> Result<Vec<Tensor<1>>, WorldError> {
        let Self {
            world,
            mut engine,
            sums,
            failed,
        } = self;
        let own = failed.map_or(Ok(false), Err);
        let settled = settle(world, own, &mut || engine.poll());
        if !matches!(settled, Ok(Ok(()))) {
            engine.abort();
        }
        match settled? {
            Ok(()) => Ok(sums),
            Err(failed) => Err(WorldError::Sums {
                rank: failed.rank,
                size: world.size(),
                reason: failed.reason,
            }),
        }
    }
}

/// By which way gradients are summed over the processes.
#[derive(Clone, Debug, Default)]
pub enum Way {
    /// In host memory.
    #[default]
    Host,
    /// In host memory, although there are CUDA GPUs, and why.
    HostInstead(String),
    /// On the devices.
    Device(Arc<DeviceSums>),
}

impl Way {
    /// A sentence for the log; none where there was nothing to choose.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Host => None,
            Self::HostInstead(reason) => Some(format!(
                "gradients go by way of host memory, which is slower than NCCL between GPUs: {reason}"
            )),
            Self::Device(sums) => Some(format!(
                "gradients are summed on the GPUs by {}",
                sums.name()
            )),
        }
    }

    /// Whether the log should warn of it.
    pub fn is_second_best(&self) -> bool {
        matches!(self, Self::HostInstead(_))
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
