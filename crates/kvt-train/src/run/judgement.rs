//! The files that judge a run's last weights.

use std::io::Result;
use std::path::Path;

use kvt_data::fs::if_there;

/// The file of a finished run with the predictions of its last checkpoint for the validation images.
pub const PREDICTIONS: &str = "predictions.csv";

/// The file of a run with its linear evaluation, epoch by epoch; it is written once all epochs are done.
pub const LINEAR: &str = "linear.csv";

/// The folder in a run's folder with its curves and its confusion matrix, which `report.auto` makes.
pub const REPORT: &str = "report";

/// Removes the judgement of a run's earlier weights before they change.
pub(crate) fn forget_judgement(run: &Path) -> Result<()> {
    for name in [PREDICTIONS, LINEAR] {
        if_there(fs_err::remove_file(run.join(name)))?;
    }
    forget_report(run)
}

/// Removes the folder of the report that the run has made of itself.
pub fn forget_report(run: &Path) -> Result<()> {
    if_there(fs_err::remove_dir_all(run.join(REPORT)))?;
    Ok(())
}
