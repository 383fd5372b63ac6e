//! Agreement between processes that their devices are done, or that one has failed.

use std::time::{Duration, Instant};

use super::EngineError;
use crate::world::{World, WorldError};

/// How long processes wait for their devices once all of them are waiting. Summing gradients takes milliseconds; NCCL may take
/// minutes to join thousands of processes.
pub(super) const LIMIT: Duration = Duration::from_mins(10);

/// How long a process polls its own device before it exchanges states with the others. Normally all finish at about the same
/// time, and exchange once.
const ROUND: Duration = Duration::from_millis(50);

/// The pause between two polls.
const PAUSE: Duration = Duration::from_micros(50);

/// Waits until all processes are done, one has failed, or the first process has waited for longer than `limit`; all reach the
/// same result. `own` is whether this process is done already, and `poll` whether it is by now; it must not wait for other
/// processes. All processes must call this.
///
/// No process waits only for its own device: a sum that another process never joins would not end.
///
/// # Errors
/// [`WorldError::Sums`] with the first process that failed or is not done; another error if a process is lost.
pub(super) fn settle(
    world: &dyn World,
    mut own: Result<bool, EngineError>,
    poll: &mut dyn FnMut() -> Result<bool, EngineError>,
    limit: Duration,
) -> Result<(), WorldError> {
    let size = world.size();
    // When all processes had arrived here.
    let mut since = None;
    loop {
        if own == Ok(false) {
            own = look(poll);
        }
        let state = match &own {
            Ok(true) => 1.0,
            Ok(false) => 0.0,
            Err(_) => -1.0,
        };
        let is_over = since.is_some_and(|since: Instant| since.elapsed() > limit);
        let (states, is_over) = gather(world, state, is_over)?;
        if let Some(rank) = states.iter().position(|state| *state < 0.0) {
            let told = own
                .err()
                .map_or_else(String::new, |error| error.to_string());
            let reason = world.share(rank, told.into_bytes())?;
            let reason = String::from_utf8_lossy(&reason).into_owned();
            return Err(WorldError::Sums { rank, size, reason });
        }
        let Some(rank) = states.iter().position(|state| *state == 0.0) else {
            return Ok(());
        };
        if is_over {
            let seconds = limit.as_secs_f64();
            let reason = format!(
                "its device is not done after {seconds} s: a process, a device or the network between them hangs"
            );
            return Err(WorldError::Sums { rank, size, reason });
        }
        since = since.or_else(|| Some(Instant::now()));
    }
}

/// The states of all processes, and whether the time is over by the first one's clock, so that all decide the same.
fn gather(world: &dyn World, state: f64, is_over: bool) -> Result<(Vec<f64>, bool), WorldError> {
    let (rank, size) = (world.rank(), world.size());
    let mut told = vec![0.0; size + 1];
    told[rank] = state;
    if is_over && world.is_first() {
        told[size] = 1.0;
    }
    world.sum(&mut told)?;
    let is_over = told.pop().is_some_and(|told| told > 0.0);
    Ok((told, is_over))
}

/// Whether this process finishes within a round.
fn look(poll: &mut dyn FnMut() -> Result<bool, EngineError>) -> Result<bool, EngineError> {
    let start = Instant::now();
    loop {
        if poll()? {
            return Ok(true);
        }
        if start.elapsed() > ROUND {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}
