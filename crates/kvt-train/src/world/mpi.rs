//! Processes connected by MPI.
//!
//! Every call of the library is made under one lock: MPI is initialised for calls from any thread, one at a time
//! (`MPI_THREAD_SERIALIZED`). A failure within MPI ends the job through MPI's own error handler.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives, Root, SystemOperation};
use mpi::environment::Universe;
use mpi::topology::{Color, Communicator, SimpleCommunicator};

use super::{Local, World, WorldError, held};

static CALLS: Mutex<()> = Mutex::new(());

/// A communicator, which is a pointer for MPI.
struct Shared(SimpleCommunicator);

// SAFETY: the pointer is only passed to MPI, in calls that take `CALLS` first.
#[expect(unsafe_code, reason = "a handle of a C library")]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a handle of a C library")]
unsafe impl Sync for Shared {}

/// The processes of a communicator.
pub(super) struct Mpi {
    communicator: Shared,
    rank: usize,
    size: usize,
    local: Local,
    /// Finalises MPI when dropped; only in the world of all processes.
    universe: Mutex<Option<Universe>>,
    /// The worlds of the first processes, by size.
    smaller: Mutex<BTreeMap<usize, Option<Arc<dyn World>>>>,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of {}", self.rank, self.size)
    }
}

/// Starts MPI.
pub(super) fn connect() -> Result<Arc<dyn World>, WorldError> {
    let _calling = held(&CALLS);
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, level) =
        started.ok_or_else(|| WorldError::Start("it was started before".to_owned()))?;
    let world = universe.world();
    if level < Threading::Serialized {
        return Err(WorldError::Start(format!(
            "this MPI takes calls from one thread only ({level:?}): use one that was built with threads"
        )));
    }
    let host = world.split_shared(world.rank());
    let local = Local {
        rank: number(host.rank()),
        size: number(host.size()),
    };
    Ok(Arc::new(Mpi {
        rank: number(world.rank()),
        size: number(world.size()),
        local,
        communicator: Shared(world),
        universe: Mutex::new(Some(universe)),
        smaller: Mutex::default(),
    }))
}

/// MPI's numbers are C integers, which are never negative here.
fn number(value: i32) -> usize {
    usize::try_from(value).unwrap_or_default()
}

fn rank(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl World for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local(&self) -> Local {
        self.local
    }

    fn sum(&self, values: &mut [f64]) -> Result<(), WorldError> {
        let own = values.to_vec();
        let _calling = held(&CALLS);
        let sum = SystemOperation::sum();
        self.communicator.0.all_reduce_into(&own[..], values, sum);
        Ok(())
    }

    fn sum_f32(&self, values: &mut [f32]) -> Result<(), WorldError> {
        let own = values.to_vec();
        let _calling = held(&CALLS);
        let sum = SystemOperation::sum();
        self.communicator.0.all_reduce_into(&own[..], values, sum);
        Ok(())
    }

    fn sum_buckets(
        &self,
        lengths: &[usize],
        fill: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Vec<f32>>, WorldError> {
        let zeros = |&length: &usize| vec![0.0; length];
        let mut sums: Vec<Vec<f32>> = lengths.iter().map(zeros).collect();
        let own: Vec<OnceCell<Vec<f32>>> = lengths.iter().map(|_| OnceCell::new()).collect();
        mpi::request::scope(|scope| {
            let mut requests = Vec::new();
            for (number, ((sum, own), length)) in sums.iter_mut().zip(&own).zip(lengths).enumerate()
            {
                let mut bucket = zeros(length);
                fill(number, &mut bucket);
                let bucket = own.get_or_init(|| bucket);
                let _calling = held(&CALLS);
                requests.push(self.communicator.0.immediate_all_reduce_into(
                    scope,
                    &bucket[..],
                    &mut sum[..],
                    SystemOperation::sum(),
                ));
            }
            for request in requests {
                let _calling = held(&CALLS);
                request.wait();
            }
        });
        Ok(sums)
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) -> Result<(), WorldError> {
        let _calling = held(&CALLS);
        let root = self.communicator.0.process_at_rank(rank(from));
        root.broadcast_into(bytes);
        Ok(())
    }

    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError> {
        let mut smaller = held(&self.smaller);
        let made = smaller.entry(count).or_insert_with(|| {
            let _calling = held(&CALLS);
            let color = if self.rank < count {
                Color::with_value(0)
            } else {
                Color::undefined()
            };
            let communicator = self.communicator.0.split_by_color(color)?;
            let world: Arc<dyn World> = Arc::new(Self {
                rank: self.rank,
                size: count,
                local: self.local,
                communicator: Shared(communicator),
                universe: Mutex::new(None),
                smaller: Mutex::default(),
            });
            Some(world)
        });
        Ok(made.clone())
    }

    fn finish(&self) {
        let smaller = std::mem::take(&mut *held(&self.smaller));
        // In order of size, the same in all processes.
        for (_, world) in smaller {
            let _calling = held(&CALLS);
            drop(world);
        }
        let universe = held(&self.universe).take();
        let _calling = held(&CALLS);
        drop(universe);
    }

    fn abort(&self, code: u8) {
        self.communicator.0.abort(code.into());
    }
}

impl Drop for Mpi {
    /// A process that leaves without [`finish`](World::finish), for example in a panic, must not wait for the others: they wait
    /// for it.
    fn drop(&mut self) {
        if held(&self.universe).is_some() {
            self.communicator.0.abort(101);
        }
    }
}
