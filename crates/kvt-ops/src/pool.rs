//! Many operations in a row on the CPU's threads.

use std::sync::{Mutex, TryLockError};

use burn::tensor::Device;

/// Held by the work that is on the pool.
static ON_POOL: Mutex<()> = Mutex::new(());

/// Runs work that consists of many operations: on the CPU on one of the threads of its pool.
///
/// Another thread hands every loop of an operation to the pool, sleeps until it is done, and has to be woken, thousands of times in
/// one training step. For small loops this takes longer than the work. What the calling thread has of its own, such
/// as [`current_group`](crate::current_group), is not there.
///
/// One piece of work is there at a time: a thread of the pool that waits takes other work, and would return to its own only after the
/// whole of it. Work that comes meanwhile, from another thread or from within, runs on the thread that has it.
pub fn on_pool<T: Send>(device: &Device, work: impl FnOnce() -> T + Send) -> T {
    // With or without autodiff.
    if *device != Device::flex() {
        return work();
    }
    // The lock guards no data that a panic could have left half changed.
    let alone = match ON_POOL.try_lock() {
        Ok(alone) => Some(alone),
        Err(TryLockError::Poisoned(alone)) => Some(alone.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    match alone {
        Some(_alone) => rayon::scope(|_| work()),
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this thread belongs to the pool.
    fn is_there() -> bool {
        rayon::current_thread_index().is_some()
    }

    #[test]
    fn one_piece_of_work_is_on_the_pool() {
        let cpu = Device::flex();
        assert!(!is_there());
        assert!(on_pool(&cpu.clone().autodiff(), is_there));
        let (within, from_another) = on_pool(&cpu, || {
            let another =
                std::thread::scope(|scope| scope.spawn(|| on_pool(&cpu, is_there)).join());
            (on_pool(&cpu, is_there), another.ok())
        });
        assert!(within);
        assert_eq!(from_another, Some(false));
        // The next one may be there, also after a panic.
        let panic = std::panic::catch_unwind(|| on_pool(&Device::flex(), || assert!(!is_there())));
        assert!(panic.is_err());
        assert!(on_pool(&cpu, is_there));
    }
}
