//! The files that judge a run's last weights.

use std::io::{ErrorKind, Result};
use std::path::Path;

/// The file of a finished run with the predictions of its last checkpoint for the validation images.
pub(crate) const PREDICTIONS: &str = "predictions.csv";

/// The file of a run with its linear evaluation, epoch by epoch; it is written once all epochs are done.
pub(crate) const LINEAR: &str = "linear.csv";

/// Removes the judgement of a run's earlier weights before they change.
pub(crate) fn forget_judgement(run: &Path) -> Result<()> {
    for name in [PREDICTIONS, LINEAR] {
        match fs_err::remove_file(run.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
