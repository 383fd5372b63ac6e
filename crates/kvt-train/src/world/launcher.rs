//! Who has started this process, and how many others.

use std::sync::Arc;

use super::{World, WorldError, alone};

/// Environment variables by which launchers tell the number of processes: Open MPI's `mpirun`; MPICH's and Intel's, and
/// `srun --mpi=pmi2`; `srun`.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The world of this process. MPI is started only where a launcher has started several processes, so that a build with it
/// needs no MPI to be set up for a single one. Call it once, before other threads are made.
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
    let sizes = SIZES.iter().filter_map(|name| variable(name)?.parse().ok());
    sizes.max().unwrap_or(1)
}

#[cfg(feature = "mpi")]
fn connect(_size: usize) -> Result<Arc<dyn World>, WorldError> {
    super::mpi::connect()
}

#[cfg(not(feature = "mpi"))]
fn connect(size: usize) -> Result<Arc<dyn World>, WorldError> {
    Err(WorldError::NotBuilt { size })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A job of four tasks, of which the script is one process.
        assert_eq!(of(&[("SLURM_NTASKS", "4")]), 1);
        assert_eq!(of(&[("SLURM_STEP_NUM_TASKS", "4")]), 4);
        assert_eq!(of(&[("PMI_SIZE", "?")]), 1);
    }
}
