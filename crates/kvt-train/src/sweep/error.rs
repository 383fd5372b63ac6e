//! What is wrong with a sweep as a whole; what is wrong with one of its runs is that run's.

use std::path::PathBuf;

use crate::config::ConfigError;
use crate::error::TrainError;
use crate::report::ReportError;
use crate::run::RunError;

/// An error that stops a sweep before it trains anything, or keeps its result from being made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file says something wrong.
    #[error("`{}`: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and a way out.
        reason: String,
    },
    /// The configuration of a run of the file.
    #[error("`{}`, run `{run}`: {problem}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The run's name.
        run: String,
        /// What is wrong.
        problem: Box<ConfigError>,
    },
    /// The log of a run cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A run's folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run's model, data or weights.
    #[error(transparent)]
    Train(#[from] TrainError),
}
