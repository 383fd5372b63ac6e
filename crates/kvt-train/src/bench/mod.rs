//! Measurements behind `kvt bench`: one attention operation, or one training step, dense beside
//! k-NN, in alternation in one process, so that a machine that slows down slows both; the loader, stage by stage.

mod attention;
mod inputs;
mod kinds;
mod loader;
mod memory;
mod peak;
mod scaling;
mod step;
mod timing;

pub use attention::{AttentionCase, AttentionMeasurement, AttentionShape, attention};
pub use inputs::AttentionInput;
pub use kinds::{KindCase, KindMeasurement, KindTimes};
pub use loader::{LoaderCase, LoaderMeasurement, Stage, loader};
pub use memory::peak_of;
pub use peak::Peak;
pub use scaling::{ScalingMeasurement, scaling};
pub use step::{StepCase, StepMeasurement, step};
pub(crate) use timing::time;
pub use timing::{Rounds, Timing};

use burn::tensor::ExecutionError;

/// A measurement that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device failed.
    #[error("the device failed")]
    Device(#[from] ExecutionError),
    /// A step failed.
    #[error(transparent)]
    Update(#[from] crate::engine::UpdateError),
    /// A process is lost.
    #[error(transparent)]
    World(#[from] crate::world::WorldError),
    /// The model cannot be built.
    #[error(transparent)]
    Model(#[from] kvt_models::ModelError),
    /// The images.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// An image.
    #[error(transparent)]
    Decode(#[from] crate::data::DecodeError),
    /// What is done to an image.
    #[error(transparent)]
    Augment(#[from] crate::augment::AugmentError),
    /// Shapes or settings of the attention.
    #[error(transparent)]
    Attention(#[from] kvt_attention::AttentionError),
}
