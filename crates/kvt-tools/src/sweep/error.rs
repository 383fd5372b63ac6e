//! Errors of a sweep as a whole; an error in training one of its runs is reported for that run.

use std::path::{Path, PathBuf};

use crate::bench::BenchError;
use crate::report::ReportError;
use kvt_train::config::ConfigError;
use kvt_train::device::DeviceError;

/// An error that stops a sweep before it trains anything, or keeps its result from being made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The contents of the file are wrong.
    #[error("`{}`: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        reason: String,
    },
    /// The configuration of a run in the file is wrong.
    #[error("`{}`, run `{run}`: {problem}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The run's name.
        run: String,
        /// What is wrong.
        problem: Box<ConfigError>,
    },
    /// A device cannot compute in the precision of a run.
    #[error("run `{run}`: {problem}")]
    Device {
        /// The run's name.
        run: String,
        /// What the device can do.
        problem: DeviceError,
    },
    /// A sweep beside other inputs.
    #[error("`{}` is a sweep, which is compared by itself: write the other runs into it", .0.display())]
    NotAlone(PathBuf),
    /// An input that does not exist.
    #[error("no file or folder `{}`: give configuration files and folders of runs", .0.display())]
    NoInput(PathBuf),
    /// Two inputs that are one run.
    #[error(
        "`{}` and `{}` are both the run in `{}`: name a run once, and give each configuration its own `run.dir`",
        .inputs[0].display(), .inputs[1].display(), .run.display()
    )]
    Twice {
        /// The inputs.
        inputs: [PathBuf; 2],
        /// The folder of the run.
        run: PathBuf,
    },
    /// No run has a result.
    #[error(
        "no run has finished an epoch, or those to train are not finished: there is nothing to compare"
    )]
    Nothing,
    /// A stop was requested.
    #[error("stopped; the same command continues from here")]
    Stopped,
    /// A file or a run cannot be read, its model, data or weights cannot be used, or a result cannot be written.
    #[error(transparent)]
    Report(ReportError),
    /// A step of a run's model cannot be measured.
    #[error("a step of a run cannot be measured")]
    Bench(#[from] BenchError),
}

/// Whatever can stop a report.
impl<E: Into<ReportError>> From<E> for SweepError {
    fn from(error: E) -> Self {
        Self::Report(error.into())
    }
}

/// A file that is not what it should be.
pub(super) fn wrong(path: &Path, reason: impl Into<String>) -> SweepError {
    SweepError::File {
        path: path.to_owned(),
        reason: reason.into(),
    }
}
