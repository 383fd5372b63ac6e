//! The processes of a job: who there are, and how they add up and hand out numbers.
//!
//! A [`World`] is all that the rest knows of them. [`Alone`] is one process, [`threads`] are several in one program, for
//! tests, and with the feature `mpi` there are the processes that `mpirun` or `srun` has started: [`start`] finds out.
//!
//! Every process must call the same methods in the same order. What may go wrong in one of them alone is therefore
//! [agreed](agree()) on before anybody goes on.
//!
//! A world sums numbers in host memory. Tensors are summed where they lie by [`on_device`].

mod agree;
mod alone;
mod cores;
mod error;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi;
pub mod on_device;
mod state;
mod threads;

use std::fmt::Debug;
use std::sync::Arc;

pub use agree::{Failure, agree};
pub use alone::{Alone, alone};
pub use cores::{Cores, own_cores, share_cores};
pub use error::WorldError;
pub use launcher::start;
pub(crate) use state::{Tensors, decode, encode};
pub use threads::{Threads, threads};

/// The place of a process among those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its number there, from 0.
    pub rank: usize,
    /// How many the host has.
    pub size: usize,
}

/// The processes of a job, as one of them sees them.
pub trait World: Debug + Send + Sync {
    /// The number of this process, from 0. The first one logs, saves and speaks.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The place of this process on its host.
    fn local(&self) -> Local;

    /// Replaces each number by its sum over the processes. All have the same one, to the bit.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum(&self, values: &mut [f64]) -> Result<(), WorldError>;

    /// The same in f32.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum_f32(&self, values: &mut [f32]) -> Result<(), WorldError>;

    /// The sums of several buckets of the same lengths in all processes. `fill` writes a bucket, and each bucket is on its
    /// way while the next one is written.
    ///
    /// # Errors
    /// If a process is lost.
    fn sum_buckets(
        &self,
        lengths: &[usize],
        fill: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Vec<f32>>, WorldError>;

    /// Gives all processes the bytes of one of them. They have the same number everywhere.
    ///
    /// # Errors
    /// If a process is lost.
    fn broadcast(&self, from: usize, bytes: &mut [u8]) -> Result<(), WorldError>;

    /// The first `count` processes as a world; `None` in the others. All processes must call it.
    ///
    /// # Errors
    /// If a process is lost.
    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError>;

    /// Leaves in good order, after everything else. All processes must call it.
    fn finish(&self) {}

    /// Ends this process and all others, which may wait for it. Returns where there is nobody else to end.
    fn abort(&self, _code: u8) {}
}

impl dyn World + '_ {
    /// Whether this is the first process.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there is no other process.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// A number of each process, in their order.
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

    /// The bytes of one process in all of them; the others' own ones are dropped.
    ///
    /// # Errors
    /// If a process is lost.
    pub fn share(&self, from: usize, own: Vec<u8>) -> Result<Vec<u8>, WorldError> {
        /// A message counts its bytes in 31 bits.
        const MESSAGE: usize = 1 << 30;

        let mut length = (own.len() as u64).to_le_bytes();
        self.broadcast(from, &mut length)?;
        let length = u64::from_le_bytes(length);
        let mut bytes = match self.rank() == from {
            true => own,
            false => vec![0; usize::try_from(length).map_err(|_| WorldError::Lost)?],
        };
        for part in bytes.chunks_mut(MESSAGE) {
            self.broadcast(from, part)?;
        }
        Ok(bytes)
    }

    /// The lines of all processes, in their order.
    ///
    /// # Errors
    /// If a process is lost.
    pub fn collect(&self, own: &[String]) -> Result<Vec<String>, WorldError> {
        let counts = self.gather(own.len() as f64)?;
        let mut all = Vec::new();
        for (rank, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let own = serde_json::to_vec(own).unwrap_or_default();
            let bytes = self.share(rank, own)?;
            let lines: Vec<String> = serde_json::from_slice(&bytes).unwrap_or_default();
            all.extend(lines);
        }
        Ok(all)
    }
}
