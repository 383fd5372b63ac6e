//! The share of a process in the cores of its host.

use std::error::Error;
use std::sync::OnceLock;

use rayon::ThreadPoolBuilder;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use super::{World, WorldError};

/// The result of [`share_cores`] in this process.
static SHARED: OnceLock<Cores> = OnceLock::new();

/// The cores that a process should use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Number of cores for its threads.
    pub own: usize,
    /// Cores on the host.
    pub host: usize,
    /// Processes on the host.
    pub processes: usize,
    /// Cores that it is bound to; all of the host's if it is not bound.
    bound: usize,
}

impl Cores {
    /// For `sharing` processes, including this one, that may use the same `allowed` cores.
    fn new(allowed: usize, sharing: usize, [bound, host, processes]: [usize; 3]) -> Self {
        Self {
            own: (allowed / sharing.max(1)).max(1),
            host,
            processes,
            bound,
        }
    }

    /// Whether the launcher has left this process a single core, although there are several per process. By default `mpirun`
    /// binds each process to one core if there are at most two.
    pub fn is_bound_to_one(&self) -> bool {
        self.bound == 1 && self.host >= 2 * self.processes
    }
}

/// The cores that a thread pool of this process may use: its share, if [`share_cores`] has found other processes.
pub fn own_cores() -> usize {
    SHARED.get().map_or_else(allowed, |cores| cores.own)
}

/// Divides cores among the processes that may use the same ones, for [`own_cores`]. All processes must call it once.
///
/// # Errors
/// If a process is lost.
pub fn share_cores(world: &dyn World) -> Result<Cores, WorldError> {
    let found = found(world)?;
    Ok(*SHARED.get_or_init(|| found))
}

/// Starts the threads that compute on the CPU: as many as the environment's `RAYON_NUM_THREADS`, or this process's share of the
/// cores. Otherwise the first operation would start them, and panic where the system gives none.
///
/// # Errors
/// If one cannot be started.
pub fn start_threads() -> Result<(), WorldError> {
    let mut pool = ThreadPoolBuilder::new();
    if let Some(cores) = SHARED.get()
        && std::env::var_os("RAYON_NUM_THREADS").is_none()
    {
        pool = pool.num_threads(cores.own);
    }
    let started = pool.build_global();
    // An error without a source is that they run already.
    match started.as_ref().err().and_then(Error::source) {
        Some(reason) => Err(WorldError::Threads(reason.to_string())),
        None => Ok(()),
    }
}

/// Processes share cores if they are bound to the same ones, or if none is bound: those of a host, of a NUMA node, or of a
/// container.
fn found(world: &dyn World) -> Result<Cores, WorldError> {
    let list = allowed_list();
    // Exact as an f64, and different for different cores.
    let hash = blake3::hash(format!("{}\n{}", host(), list.as_deref().unwrap_or("")).as_bytes());
    let number = hash
        .as_bytes()
        .iter()
        .take(6)
        .fold(0.0f64, |number, byte| number * 256.0 + f64::from(*byte));
    let all = world.gather(number)?;
    let sharing = all
        .iter()
        .filter(|other| other.to_bits() == number.to_bits())
        .count();

    let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let host = System::new_with_specifics(cpus).cpus().len().max(allowed());
    let bound = list.as_deref().and_then(count).unwrap_or(host);
    Ok(Cores::new(
        allowed(),
        sharing,
        [bound, host, world.local().size],
    ))
}

/// The cores that this process may use, by its binding and the quota of its container.
fn allowed() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// An identifier of the host, or of a container on it.
pub(super) fn host() -> String {
    let boot = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = System::host_name().unwrap_or_default();
    format!("{boot}{name}")
}

/// The cores that this process is bound to, such as `0-3,8`; `None` if the system does not report them.
fn allowed_list() -> Option<String> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

/// The number of cores in a list.
fn count(list: &str) -> Option<usize> {
    let parts = list.split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some((last + 1).saturating_sub(first))
    });
    parts.sum()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::world::threads;

    #[test]
    fn those_that_may_use_the_same_cores_divide_them() {
        let of = |allowed, sharing, others| {
            let cores = Cores::new(allowed, sharing, others);
            (cores.own, cores.is_bound_to_one())
        };
        assert_eq!(of(16, 1, [16, 16, 1]), (16, false));
        assert_eq!(of(16, 4, [16, 16, 4]), (4, false));
        // `--bind-to core`, and `--map-by slot:PE=4`.
        assert_eq!(of(1, 1, [1, 16, 2]), (1, true));
        assert_eq!(of(4, 1, [4, 16, 4]), (4, false));
        // `--bind-to numa`: four processes on each of two nodes.
        assert_eq!(of(32, 4, [32, 64, 8]), (8, false));
        // A container with a quota, and one with a single core of many.
        assert_eq!(of(8, 4, [64, 64, 4]), (2, false));
        assert_eq!(of(1, 1, [64, 64, 1]), (1, false));
        // More processes than cores, or as many.
        assert_eq!(of(2, 4, [2, 2, 4]), (1, false));
        assert_eq!(of(1, 1, [1, 2, 2]), (1, false));
    }

    #[test]
    fn a_list_of_cores() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count(""), None);
    }

    /// Threads of one program are bound to the same cores.
    #[test]
    fn processes_of_a_host_find_each_other() {
        for size in [1, 3] {
            for cores in threads(size, |world| found(&*world).unwrap()) {
                assert_eq!(cores.own, (allowed() / size).max(1));
                assert_eq!(cores.processes, size);
            }
        }
    }
}
