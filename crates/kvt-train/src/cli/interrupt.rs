//! Ctrl-C: the first one asks the loop to stop after its step, the second one ends the process.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::output;

/// Set once somebody asked to stop.
pub(super) static STOP: AtomicBool = AtomicBool::new(false);

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Starts to listen for Ctrl-C and for termination.
pub(super) fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        output::status("stopping after this step; press Ctrl-C again to stop at once");
    })?;
    Ok(())
}

/// The exit code of a run that was stopped.
pub(super) fn exit_code() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}
