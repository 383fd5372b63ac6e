//! Measurements of `kvt bench`: one attention operation, one forward pass or one training step, dense and k-NN alternating
//! in one process, so that a slowdown of the machine affects both; and the loader, stage by stage.

mod attention;
mod case;
mod forward;
mod inputs;
mod kinds;
mod loader;
mod memory;
mod peak;
mod running;
mod scaling;
mod step;
mod timing;

pub use attention::{
    AttentionCase, AttentionMeasurement, AttentionShape, AttentionTimes, attention,
};
pub use case::ModelCase;
pub use forward::{ForwardMeasurement, forward};
pub use inputs::AttentionInput;
pub use kinds::KindMeasurement;
pub use loader::{LoaderCase, LoaderMeasurement, Stage, loader};
pub use memory::{mebibytes, peak_of};
pub use peak::Peak;
pub use scaling::{ScalingMeasurement, scaling};
pub use step::{StepMeasurement, step};
pub use timing::{Rounds, Timing, time};

use burn::tensor::ExecutionError;

use kvt_train::engine::UpdateError;
use kvt_train::error::TrainError;

/// A failed measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device failed.
    #[error("the device failed")]
    Device(#[source] ExecutionError),
    /// A stop was requested.
    #[error("stopped")]
    Stopped,
    /// A step failed.
    #[error(transparent)]
    Update(UpdateError),
    /// The model cannot be built or used, the images cannot be read, or a process was lost.
    #[error(transparent)]
    Train(Box<TrainError>),
}

/// Whatever can stop training.
impl<E: Into<TrainError>> From<E> for BenchError {
    fn from(error: E) -> Self {
        Self::Train(Box::new(error.into()))
    }
}
