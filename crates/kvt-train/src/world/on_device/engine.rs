//! What sums tensors on devices, as the rest of the program sees it.

use std::fmt::Debug;

use burn::tensor::Tensor;

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
///
/// The sums of an update are prepared in every process, then started in every process, and taken when all processes have
/// them. Whatever may fail in one process alone, or wait for its device, is done before any process starts: a device that
/// runs a sum waits for those of the others, and whoever waits for that device would wait with it.
pub trait Engine: Debug + Send {
    /// Takes the buckets of an update, finds memory for their sums, and waits until this process's device has done all
    /// that it was handed before. It does not wait for other processes, and nothing is summed yet.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn prepare(&mut self, buckets: &mut dyn Iterator<Item = Tensor<1>>) -> Result<(), EngineError>;

    /// Starts the sums of the buckets that were prepared, in their order. Until [`poll`](Self::poll) says that they are done,
    /// this thread must not use the device for anything else.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn start(&mut self) -> Result<(), EngineError>;

    /// Whether all that was started is done. It does not wait for other processes.
    ///
    /// # Errors
    /// If the device or the library has failed.
    fn poll(&mut self) -> Result<bool, EngineError>;

    /// The sums of the buckets, in their order, when they are done.
    fn take(&mut self) -> Vec<Tensor<1>>;

    /// Gives up what was started, also where other processes never join in. Nothing is started afterwards.
    fn abort(&mut self);
}

/// A library that sums on devices, before the processes have joined.
pub(super) trait Library {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// What the first process makes for all to join by.
    ///
    /// # Errors
    /// If the library fails.
    fn id(&self) -> Result<Vec<u8>, EngineError>;

    /// Begins to join, without waiting for the others: that is done when the engine's [`poll`](Engine::poll) says so.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError>;
}
