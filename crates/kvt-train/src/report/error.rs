//! What can go wrong in a report.

use std::io;
use std::path::PathBuf;

use crate::run::RunError;

/// An error while reading runs or writing tables and plots.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A failure of the file system; the message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A plot was asked for in a format that is not drawn.
    #[error("plot `{}` has an unknown extension: expected `.svg` or `.png`", .path.display())]
    Extension {
        /// The file asked for.
        path: PathBuf,
    },
    /// The drawing library failed.
    #[error("could not draw `{}`: {reason}", .path.display())]
    Draw {
        /// The file asked for.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
}
