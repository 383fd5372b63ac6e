//! The processes of a job, and their collective operations: sums and broadcasts.
//!
//! A [`World`] is the only interface to them. [`Alone`] is one process, [`threads`] are several in one program, for tests, and
//! the feature `mpi` adds the processes that `mpirun` or `srun` has started: [`start`] detects them.
//!
//! Every process must call the same methods in the same order. Whatever may fail in only one of them is therefore
//! [agreed](agree()) on before any of them continues.
//!
//! A world sums numbers in host memory. [`on_device`] sums tensors in device memory.

mod agree;
mod alone;
mod cores;
mod error;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi;
pub mod on_device;
mod threads;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use agree::{Failure, agree};
pub use alone::{Alone, alone};
pub use cores::{Cores, own_cores, share_cores, start_threads};
pub use error::WorldError;
pub use launcher::start;
pub use threads::threads;

/// The rank of a process on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its rank there, from 0.
    pub rank: usize,
    /// The number of processes on the host.
    pub size: usize,
}

/// The processes of a job, as seen by one of them.
pub trait World: Debug + Send + Sync {
    /// The rank of this process, from 0. The first one logs, saves and prints.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// The rank of this process on its host: the same if all processes are on one.
    fn local(&self) -> Local {
        Local {
            rank: self.rank(),
            size: self.size(),
        }
    }

    /// Replaces each number by its sum over the processes. The results are identical in all of them, bit for bit.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum(&self, values: &mut [f64]) -> Result<(), WorldError>;

    /// The same in f32.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum_f32(&self, values: &mut [f32]) -> Result<(), WorldError>;

    /// The sums of several buckets, whose lengths are the same in all processes. `fill` writes a bucket. A world that can sends each
    /// bucket while the next one is written.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum_buckets(
        &self,
        lengths: &[usize],
        fill: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Vec<f32>>, WorldError> {
        let mut bucket = |(number, &length): (usize, &usize)| {
            let mut bucket = vec![0.0; length];
            fill(number, &mut bucket);
            self.sum_f32(&mut bucket)?;
            Ok(bucket)
        };
        lengths.iter().enumerate().map(&mut bucket).collect()
    }

    /// Broadcasts the bytes of one process to all. The length must be the same everywhere.
    ///
    /// # Errors
    /// If a process is lost.
    fn broadcast(&self, from: usize, bytes: &mut [u8]) -> Result<(), WorldError>;

    /// The first `count` processes as a world; `None` in the others. All processes must call it.
    ///
    /// # Errors
    /// If a process is lost.
    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError>;

    /// Disconnects in good order, after everything else. All processes must call it.
    fn finish(&self) {}

    /// Ends this process and all others, which may be waiting for it. Returns if there are no others.
    fn abort(&self, _code: u8) {}
}

impl dyn World + '_ {
    /// Whether this is the first process.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether this is the only process.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// One number from each process, in order of rank.
    ///
    /// # Errors
    /// If a process is lost.
    pub fn gather(&self, own: f64) -> Result<Vec<f64>, WorldError> {
        let mut all = vec![0.0; self.size()];
        if let Some(place) = all.get_mut(self.rank()) {
            *place = own;
        }
        self.sum(&mut all)?;
        Ok(all)
    }

    /// The bytes of one process in all of them; the `own` bytes of others are ignored.
    ///
    /// # Errors
    /// If a process is lost.
    pub fn share(&self, from: usize, own: Vec<u8>) -> Result<Vec<u8>, WorldError> {
        /// MPI counts the bytes of a message in 31 bits.
        const MESSAGE: usize = 1 << 30;

        let mut length = (own.len() as u64).to_le_bytes();
        self.broadcast(from, &mut length)?;
        let length = u64::from_le_bytes(length);
        let mut bytes = if self.rank() == from {
            own
        } else {
            vec![0; usize::try_from(length).map_err(|_| WorldError::Lost)?]
        };
        for part in bytes.chunks_mut(MESSAGE) {
            self.broadcast(from, part)?;
        }
        Ok(bytes)
    }

    /// The items of all processes, in order of rank. They go through JSON: numbers must be finite.
    ///
    /// # Errors
    /// If a process is lost, or an item cannot be read.
    pub fn collect<T>(&self, own: &[T]) -> Result<Vec<T>, WorldError>
    where
        T: Serialize + DeserializeOwned,
    {
        let counts = self.gather(own.len() as f64)?;
        let mut all = Vec::new();
        for (rank, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let own = serde_json::to_vec(own).unwrap_or_default();
            let items: Vec<T> = serde_json::from_slice(&self.share(rank, own)?)?;
            all.extend(items);
        }
        Ok(all)
    }
}

/// What a mutex guards, even if a thread that held it has panicked.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
