//! Signals that ask the program to end. A verb that [listens](listen) finishes its step and saves (kvt-train's `engine/trainer`), and its exit code
//! encodes the signal. Any other ends at once, as it would by itself, but leaves no temporary file.
//!
//! | signal | sent by | exit code |
//! |---|---|---|
//! | `SIGHUP` | a terminal that is closed | 129 |
//! | `SIGINT` | Ctrl-C; the second one ends the process at once | 130 |
//! | `SIGUSR1` | Slurm's `--signal=USR1@60`, a minute before the time is over | 138 |
//! | `SIGTERM` | `kill`, `timeout`, Slurm, Kubernetes | 143 |
//!
//! A signal that was ignored when the program started stays ignored: `nohup kvt train ... &` continues after logout, and a
//! script's background job ignores the Ctrl-C of its terminal.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::output;
use kvt_data::fs::abandon;

/// Whether the verb ends by itself when it is asked to.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// Set once the user or the system asks to stop.
pub(super) static STOP: AtomicBool = AtomicBool::new(false);

/// The number of the first signal that asked to stop.
static SIGNAL: AtomicU8 = AtomicU8::new(SIGINT);

/// A shell expects this plus the signal number as the exit code of a program that a signal ended.
const BY_SIGNAL: u8 = 128;

/// SIGINT has this number on every system.
const SIGINT: u8 = 2;

/// The exit code of a run that was stopped.
pub(super) fn exit_code() -> ExitCode {
    ExitCode::from(BY_SIGNAL + SIGNAL.load(Ordering::Relaxed))
}

/// From now on, a signal sets [`STOP`].
pub(super) fn listen() {
    LISTENING.store(true, Ordering::Relaxed);
}

/// Acts on a signal.
fn heard(signal: u8) {
    if !LISTENING.load(Ordering::Relaxed) {
        abandon(|| end(signal));
    } else if !STOP.load(Ordering::Relaxed) {
        // First: whoever sees `STOP` may end the program by the signal.
        SIGNAL.store(signal, Ordering::Relaxed);
        STOP.store(true, Ordering::Relaxed);
        output::status("stopping after this step; press Ctrl-C again to stop at once");
    } else if signal == SIGINT {
        abandon(|| std::process::exit((BY_SIGNAL + signal).into()));
    }
}

/// Ends the process by a signal, as if it had not been handled: a shell's loop ends with a program that Ctrl-C killed.
fn end(signal: u8) {
    #[cfg(unix)]
    // Returns only if it fails.
    let _ = signal_hook::low_level::emulate_default_handler(signal.into());
    std::process::exit((BY_SIGNAL + signal).into());
}

/// Starts to handle signals.
#[cfg(unix)]
pub(super) fn watch() -> anyhow::Result<()> {
    use signal_hook::consts::signal;

    let ignored = ignored();
    let heeded = [
        signal::SIGHUP,
        signal::SIGINT,
        signal::SIGUSR1,
        signal::SIGTERM,
    ]
    .into_iter()
    .filter(|number| ignored >> (number - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heeded)?;
    std::thread::Builder::new()
        .name("kvt-signals".to_owned())
        // Whatever `RUST_MIN_STACK` asks of the threads that compute.
        .stack_size(2 << 20)
        .spawn(move || {
            for signal in signals.forever() {
                heard(u8::try_from(signal).unwrap_or(SIGINT));
            }
        })?;
    Ok(())
}

/// A bit for each ignored signal, the lowest for signal 1. Only Linux reports this without unsafe code; elsewhere every signal is
/// handled.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Starts to handle Ctrl-C.
#[cfg(not(unix))]
pub(super) fn watch() -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(|| heard(SIGINT))?)
}
