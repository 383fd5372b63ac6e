//! Errors of communication between processes.

/// An error between the processes of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// Another process ended without a message.
    #[error("another process of the job is gone: resume the run with `--resume`")]
    Lost,
    /// The state of the first process cannot be sent or understood.
    #[error(
        "the state of the run could not be shared among its processes: {0}; resume it with `--resume`"
    )]
    State(String),
    /// A launcher has started several processes, and this build cannot connect them.
    #[error(
        "{0} processes were started, but this build of kvt has no MPI: build with `--features mpi`, \
         or start one process without a launcher"
    )]
    NotBuilt(usize),
    /// The launcher and MPI do not match.
    #[error(
        "the launcher started {size} processes, but MPI connects {found}: use the launcher of the MPI that kvt was built with \
         (`srun --mpi=list` names Slurm's)"
    )]
    Launcher {
        /// The processes that were started.
        size: usize,
        /// The processes known to MPI.
        found: usize,
    },
    /// The threads of the CPU backend do not start.
    #[error(
        "could not start the threads that compute: {0}; allow more of them (`ulimit -u`, the pids limit of a container) or more \
         memory (`ulimit -v`), or ask for fewer with `RAYON_NUM_THREADS`"
    )]
    Threads(String),
    /// MPI does not start.
    #[error("MPI does not start: {0}")]
    Start(String),
    /// The processes of a job cannot share an update evenly.
    #[error(
        "`train.accumulate` = {accumulate} micro-batches cannot be divided evenly among {size} processes: {}set it to a multiple of {size}, such as \
         `--set train.accumulate={}` (an update has `train.batch_size` x `train.accumulate` images, whatever the number of \
         processes)",
        fewer(*.accumulate, *.size), next(*.accumulate, *.size)
    )]
    Accumulate {
        /// `train.accumulate`
        accumulate: usize,
        /// The number of processes.
        size: usize,
    },
    /// A sum on the devices of the processes failed.
    #[error(
        "process {rank} of {size}: the gradients could not be summed on the devices ({reason}): resume the run with `--resume`; \
         set `NCCL_DEBUG=WARN` in the environment for details, or `KVT_NCCL=0` to sum in host memory"
    )]
    Sums {
        /// The first process that failed.
        rank: usize,
        /// The number of processes.
        size: usize,
        /// Its message.
        reason: String,
    },
    /// Processes were started with different inputs.
    #[error(
        "{what} of process {rank} {is} not the first one's: give every process of a job the same files, command and version of kvt",
        is = if *.what == "the images" { "are" } else { "is" }
    )]
    Differs {
        /// What differs.
        what: &'static str,
        /// The process.
        rank: usize,
    },
}

impl From<serde_json::Error> for WorldError {
    fn from(error: serde_json::Error) -> Self {
        Self::State(error.to_string())
    }
}

/// Smaller numbers of processes that could share an update evenly.
fn fewer(accumulate: usize, size: usize) -> String {
    let fits = (2..size)
        .rev()
        .find(|count| accumulate.is_multiple_of(*count));
    match fits {
        Some(count) => format!("start {count}, or "),
        None => String::new(),
    }
}

/// The smallest number of micro-batches, at least `accumulate`, that the processes can share evenly.
fn next(accumulate: usize, size: usize) -> usize {
    accumulate.div_ceil(size).max(1).saturating_mul(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_is_named() {
        let text = |accumulate, size| WorldError::Accumulate { accumulate, size }.to_string();
        let found = text(1, 8);
        assert!(found.contains("--set train.accumulate=8`"), "{found}");
        assert!(!found.contains("start"), "{found}");
        let found = text(6, 4);
        assert!(found.contains("start 3, or set it"), "{found}");
        assert!(found.contains("--set train.accumulate=8`"), "{found}");
    }
}
