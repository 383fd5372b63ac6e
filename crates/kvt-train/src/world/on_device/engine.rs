//! The interface to libraries that sum tensors on devices.

use std::fmt::Debug;

use burn::tensor::Tensor;

/// A failure of a library that sums on devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{library}: {reason}")]
pub struct EngineError {
    /// The library.
    pub library: &'static str,
    /// Its message.
    pub reason: String,
}

/// Sums tensors on the devices of the processes, as seen by one of them.
///
/// The sums of an update are prepared in every process, then started in every process, and taken when all processes have them.
/// Anything that can fail in only one process, or that waits for its device, is done before any process starts: a device that
/// runs a sum waits for the other devices, and a thread that waits for that device would wait with it.
pub trait Engine: Debug + Send {
    /// Takes the buckets of an update, allocates memory for their sums, and waits until this process's device has finished all
    /// earlier work. It does not wait for other processes, and nothing is summed yet.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn prepare(&mut self, buckets: &mut dyn Iterator<Item = Tensor<1>>) -> Result<(), EngineError>;

    /// Starts the sums of the prepared buckets, in order. Until [`poll`](Self::poll) returns `true`, this thread must not use the
    /// device for anything else.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn start(&mut self) -> Result<(), EngineError>;

    /// Whether everything started is done. It does not wait for other processes.
    ///
    /// # Errors
    /// If the device or the library has failed.
    fn poll(&mut self) -> Result<bool, EngineError>;

    /// The sums of the buckets, in order, once they are done.
    fn take(&mut self) -> Vec<Tensor<1>>;

    /// Aborts what was started, even if other processes never join in. Nothing is started afterwards.
    fn abort(&mut self);
}

/// A library for sums on devices, before the processes have joined.
pub(super) trait Library {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The identifier that the first process creates and with which all join.
    ///
    /// # Errors
    /// If the library fails.
    fn id(&self) -> Result<Vec<u8>, EngineError>;

    /// Starts to join without waiting for the others; joining is complete when the engine's [`poll`](Engine::poll) returns
    /// `true`.
    ///
    /// # Errors
    /// If the device or the library fails.
    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError>;
}
