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
mod records;
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
pub use timing::time;
pub use timing::{Rounds, Timing};

use burn::tensor::ExecutionError;

/// A failed measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device failed.
    #[error("the device failed")]
    Device(#[from] ExecutionError),
    /// A step failed.
    #[error(transparent)]
    Update(#[from] kvt_train::engine::UpdateError),
    /// A process was lost.
    #[error(transparent)]
    World(#[from] kvt_train::world::WorldError),
    /// The model cannot be built.
    #[error(transparent)]
    Model(#[from] kvt_models::ModelError),
    /// The network for segmentation or detection cannot be built or read.
    #[error(transparent)]
    Train(Box<kvt_train::error::TrainError>),
    /// The images cannot be read.
    #[error(transparent)]
    Data(#[from] kvt_data::DataError),
    /// An image cannot be decoded.
    #[error(transparent)]
    Decode(#[from] kvt_data::DecodeError),
    /// An image cannot be augmented.
    #[error(transparent)]
    Augment(#[from] kvt_data::augment::AugmentError),
    /// Invalid shapes or settings of the attention.
    #[error(transparent)]
    Attention(#[from] kvt_attention::AttentionError),
}
