//! Runs a verb in all processes of a job: one of them prints, and none is left waiting.

use std::sync::Arc;

use super::output;
use kvt_train::error::TrainError;
use kvt_train::world::{self, World, WorldError};

/// Runs the work of a verb in this process, which may be one of several.
///
/// The first process prints, and its result is the job's. An error that only one process has ends them all, since the others
/// may wait for it.
pub(super) fn run<T: Default>(
    work: impl FnOnce(&Arc<dyn World>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let world = world::start()?;
    if !world.is_first() {
        output::silence();
    }
    let started = start_threads(&*world).map_err(anyhow::Error::from);
    match started.and_then(|()| work(&world)) {
        Err(error) if !world.is_alone() && !is_known_to_all(&error) => {
            let (rank, size) = (world.rank(), world.size());
            output::error_of_process(rank, size, &format!("{error:#}"));
            world.abort(1);
            Err(error)
        }
        done => {
            world.finish();
            if world.is_first() {
                done
            } else {
                // A launcher kills the others as soon as one fails, perhaps before the first one has printed the error.
                Ok(T::default())
            }
        }
    }
}

/// A result that is `Ok` only if it is `Ok` in all processes.
pub(super) fn agree<T>(world: &Arc<dyn World>, own: anyhow::Result<T>) -> anyhow::Result<T> {
    if world.is_alone() {
        return own;
    }
    let own = own.map_err(|error| TrainError::Verb(format!("{error:#}")));
    Ok(world::agree(&**world, own)?)
}

fn is_known_to_all(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<TrainError>();
    error.is_some_and(TrainError::is_known_to_all)
}

/// Starts threads on this process's share of the cores, and warns if the launcher has left it too few.
fn start_threads(world: &dyn World) -> Result<(), WorldError> {
    if world.is_alone() {
        return world::start_threads();
    }
    let found = world::share_cores(world)?;
    world::start_threads()?;
    if found.is_bound_to_one() {
        let (host, processes) = (found.host, found.processes);
        output::warning(&format!(
            "the launcher has bound each of {processes} processes to a single core of this host's {host}: \
             start them with `mpirun --bind-to none`, or `srun --cpus-per-task={}`",
            host / processes
        ));
    }
    Ok(())
}
