//! The cores of a process among those of its host.

use sysinfo::{CpuRefreshKind, RefreshKind, System};

use super::World;

/// The cores that a process should use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// For its threads.
    pub own: usize,
    /// Cores of the host.
    pub host: usize,
    /// Processes of the host.
    pub processes: usize,
}

impl Cores {
    /// `allowed` cores may be used. Where that is fewer than there are, the launcher has dealt them out; else each process
    /// takes its share.
    fn new(allowed: usize, host: usize, processes: usize) -> Self {
        let own = match allowed < host {
            true => allowed,
            false => (allowed / processes).max(1),
        };
        Self {
            own,
            host,
            processes,
        }
    }

    /// Whether the launcher has left this process a single core, although there are several for each. `mpirun` binds two
    /// processes or fewer to a core each.
    pub fn is_bound_to_one(&self) -> bool {
        self.own == 1 && self.host >= 2 * self.processes
    }
}

/// The cores of this process.
pub fn cores(world: &dyn World) -> Cores {
    let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let host = System::new_with_specifics(cpus).cpus().len();
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    Cores::new(allowed, host.max(allowed), world.local().size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_unless_the_launcher_has_dealt_them_out() {
        let of = |allowed, host, processes| {
            let cores = Cores::new(allowed, host, processes);
            (cores.own, cores.is_bound_to_one())
        };
        assert_eq!(of(16, 16, 1), (16, false));
        assert_eq!(of(16, 16, 4), (4, false));
        // `--bind-to core`, and `--map-by slot:PE=4`.
        assert_eq!(of(1, 16, 2), (1, true));
        assert_eq!(of(4, 16, 4), (4, false));
        // More processes than cores, or as many.
        assert_eq!(of(2, 2, 4), (1, false));
        assert_eq!(of(1, 2, 2), (1, false));
    }
}
