//! Detects the launcher of this process, and the number of processes.

use std::sync::Arc;

use super::{World, WorldError, alone};

/// Environment variables in which launchers pass the number of processes: Open MPI's `mpirun`; MPICH's and Intel's, and `srun
/// --mpi=pmi2`; `srun`.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The world of this process. MPI is started only if a launcher has started several processes, so that a single process needs no
/// MPI setup even in a build with MPI. Call it once, before other threads are started.
///
/// # Errors
/// If MPI does not start, or this build has none.
pub fn start() -> Result<Arc<dyn World>, WorldError> {
    match size(|name| std::env::var(name).ok()) {
        0 | 1 => Ok(alone()),
        size => connect(size),
    }
}

/// The number of processes that were started together.
fn size(variable: impl Fn(&str) -> Option<String>) -> usize {
    // One launcher may run within a step of another: the first match in this order is the one that started this process.
    let size = SIZES.iter().find_map(|name| variable(name));
    size.and_then(|size| size.parse().ok()).unwrap_or(1)
}

#[cfg(feature = "mpi")]
fn connect(size: usize) -> Result<Arc<dyn World>, WorldError> {
    complete(super::mpi::connect()?, size)
}

/// The world, if it contains all processes that were started. Under a launcher for another MPI, each process would be alone, and
/// all would train in the same folder.
#[cfg(any(feature = "mpi", test))]
fn complete(world: Arc<dyn World>, size: usize) -> Result<Arc<dyn World>, WorldError> {
    let found = world.size();
    if found == size {
        return Ok(world);
    }
    world.finish();
    Err(WorldError::Launcher { size, found })
}

#[cfg(not(feature = "mpi"))]
fn connect(size: usize) -> Result<Arc<dyn World>, WorldError> {
    Err(WorldError::NotBuilt(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::threads;

    #[test]
    fn launchers_are_recognised() {
        let of = |variables: &[(&str, &str)]| {
            size(|name| {
                let found = variables.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(of(&[]), 1);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "8")]), 8);
        assert_eq!(of(&[("PMI_SIZE", "2")]), 2);
        // A job of four tasks, but the script is a single process.
        assert_eq!(of(&[("SLURM_NTASKS", "4")]), 1);
        assert_eq!(of(&[("SLURM_STEP_NUM_TASKS", "4")]), 4);
        assert_eq!(of(&[("PMI_SIZE", "?")]), 1);
        // `mpirun` within a Slurm step that has more tasks.
        let within = [("SLURM_STEP_NUM_TASKS", "8"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(of(&within), 2);
    }

    /// Processes that were started together but do not find each other must not become separate runs.
    #[test]
    fn a_launcher_of_another_mpi_is_refused() {
        let found = threads(2, |world| {
            let fits = complete(Arc::clone(&world), 2).is_ok();
            (fits, complete(world, 8).err())
        });
        let refused = WorldError::Launcher { size: 8, found: 2 };
        for found in found {
            assert_eq!(found, (true, Some(refused.clone())));
        }
        let alone = complete(alone(), 4).err().map(|error| error.to_string());
        assert!(alone.is_some_and(|text| text.contains("started 4 processes, but MPI connects 1")));
    }
}
