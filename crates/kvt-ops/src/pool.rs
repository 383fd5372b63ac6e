//! Many operations in a row on the CPU's threads.

use burn::tensor::Device;

/// Runs work that consists of many operations: on the CPU on one of the threads of its pool.
///
/// Another thread hands every loop of an operation to the pool, sleeps until it is done, and has to be woken, a hundred times in
/// one forward pass. For small batches this takes longer than many of the operations. What the calling thread has of its own, such
/// as [`current_group`](crate::current_group), is not there.
pub fn on_pool<T: Send>(device: &Device, work: impl FnOnce() -> T + Send) -> T {
    if *device == Device::flex() {
        rayon::scope(|_| work())
    } else {
        work()
    }
}
