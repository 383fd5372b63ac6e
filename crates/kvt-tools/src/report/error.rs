//! What can go wrong in a report.

use std::path::PathBuf;

use kvt_data::text::quoted;
use kvt_train::config::ConfigError;

use crate::trained::TrainedError;

/// An error while reading runs or writing tables and plots.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A trained model or its images, a run that cannot be read, or a failure of the file system.
    #[error(transparent)]
    Trained(TrainedError),
    /// A report without runs.
    #[error("no run to report on: name the folders of one or more runs")]
    NoRuns,
    /// The same run twice.
    #[error("run `{}` is named twice: name each run once", .0.display())]
    Twice(PathBuf),
    /// No run has finished an epoch, by its log.
    #[error("{} finished an epoch{}", unfinished(.runs), before(.kept))]
    NothingTrained {
        /// Their folders.
        runs: Vec<PathBuf>,
        /// Tables of epochs whose log was lost.
        kept: Vec<PathBuf>,
    },
    /// A metric that no run is evaluated by.
    #[error("no run is evaluated by `{metric}`, but by {instead}")]
    NoSuchMetric {
        /// Its name.
        metric: &'static str,
        /// The metrics that the runs have, and the one that may have been meant.
        instead: String,
    },
    /// The configuration in a run's folder is damaged.
    #[error("run `{}` has a `config.toml` that cannot be used", .run.display())]
    Config {
        /// The run's folder.
        run: PathBuf,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// A picture cannot be encoded.
    #[error("could not encode a picture of the report: {0}")]
    Picture(String),
    /// The drawing library failed.
    #[error("could not draw `{}`: {reason}", .path.display())]
    Draw {
        /// The file asked for.
        path: PathBuf,
        /// The library's message.
        reason: String,
    },
}

/// Whatever a trained model and its images can lack.
impl<E: Into<TrainedError>> From<E> for ReportError {
    fn from(error: E) -> Self {
        Self::Trained(error.into())
    }
}

/// Says why there is nothing to report, and where epochs are whose log was lost.
fn before(kept: &[PathBuf]) -> String {
    if kept.is_empty() {
        return ": there is nothing to report before the first one".to_owned();
    }
    let kept = shown(kept);
    format!(" since its log was lost: the earlier epochs are in {kept}")
}

/// Names the runs that have not finished an epoch.
fn unfinished(runs: &[PathBuf]) -> String {
    match runs {
        [run] => format!("run `{}` has not", run.display()),
        runs => format!("none of the runs ({}) has", shown(runs)),
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    quoted(&paths.collect::<Vec<_>>())
}
