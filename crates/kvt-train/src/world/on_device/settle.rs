//! How processes agree that something which each does on its device is done, or has failed in one of them.

use std::time::{Duration, Instant};

use super::EngineError;
use crate::world::{World, WorldError};

/// How long a process looks at its own device before it asks what the others have seen. Where all is well they are done at
/// about the same time, and ask once.
const ROUND: Duration = Duration::from_millis(50);

/// Why the processes are not done: what the first process that failed says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// The process.
    pub(super) rank: usize,
    /// What it says.
    pub(super) reason: String,
}

/// Waits until all processes are done, or one has failed. `own` is whether this one is done already, and `poll` whether it
/// is by now; it must not wait for other processes. All processes must call this.
///
/// Nobody waits for a device alone: a sum that another process never joins would not end.
pub(super) fn settle(
    world: &dyn World,
    mut own: Result<bool, EngineError>,
    poll: &mut dyn FnMut() -> Result<bool, EngineError>,
) -> Result<Result<(), Failed>, WorldError> {
    loop {
        if own == Ok(false) {
            own = look(poll);
        }
        let states = world.gather(match &own {
            Ok(true) => 1.0,
            Ok(false) => 0.0,
            Err(_) => -1.0,
        })?;
        if let Some(rank) = states.iter().position(|state| *state < 0.0) {
            let told = own
                .err()
                .map_or_else(String::new, |error| error.to_string());
            let reason = world.share(rank, told.into_bytes())?;
            let reason = String::from_utf8_lossy(&reason).into_owned();
            return Ok(Err(Failed { rank, reason }));
        }
        if states.iter().all(|state| *state > 0.0) {
            return Ok(Ok(()));
        }
    }
}

/// Whether this process is done within a round.
fn look(poll: &mut dyn FnMut() -> Result<bool, EngineError>) -> Result<bool, EngineError> {
    let start = Instant::now();
    loop {
        if poll()? {
            return Ok(true);
        }
        if start.elapsed() > ROUND {
            return Ok(false);
        }
        std::thread::yield_now();
    }
}
