//! What can go wrong around a run's folder.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the run folder. Every message names the path and, where there is one, a way out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A failure of the file system; the message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A new run was to be made where one already is.
    #[error("run `{}` exists: use `--resume` or another `run.dir`", .path.display())]
    Exists {
        /// The run's folder.
        path: PathBuf,
    },
    /// A run was to be read or resumed where none is.
    #[error("`{}` holds no run: it has no `config.toml`", .path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The folder of a new run holds somebody else's files.
    #[error("folder `{}` is not empty and holds no run: choose another `run.dir`", .path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes this run.
    #[error("run `{}` is being written by {holder}: wait for it, stop it, or use another `run.dir`", .path.display())]
    Locked {
        /// The run's folder.
        path: PathBuf,
        /// Process and host, as far as the lock file tells.
        holder: String,
    },
    /// A class name that cannot be a line of `classes.txt`.
    #[error("class name {name:?} has a line break: rename its folder")]
    ClassName {
        /// The name.
        name: String,
    },
    /// A file of the run does not parse.
    #[error("`{}`, line {line}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// There is no checkpoint to start from.
    #[error("no {which} checkpoint in `{}`", .path.display())]
    NoCheckpoint {
        /// `last` or `best`.
        which: &'static str,
        /// The folder of checkpoints.
        path: PathBuf,
    },
    /// A checkpoint is incomplete or altered.
    #[error("checkpoint `{}` is broken: {reason}", .path.display())]
    BrokenCheckpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Which file, and how.
        reason: String,
    },
}

/// Something the user should know of that does not stop the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The pointed-to last checkpoint is unusable, an older one is taken.
    #[error("{reason}; falling back to `{}`", .used.display())]
    FellBack {
        /// What is wrong with the last checkpoint.
        reason: String,
        /// The checkpoint taken instead.
        used: PathBuf,
    },
    /// An old checkpoint could not be deleted.
    #[error("could not delete `{}`: {reason}", .path.display())]
    NotDeleted {
        /// The left-over folder.
        path: PathBuf,
        /// What the file system says.
        reason: String,
    },
    /// The log is shorter than the checkpoint remembers it.
    #[error("`{}` is shorter than the checkpoint recorded ({found} of {expected} bytes): earlier lines are lost", .path.display())]
    LogTooShort {
        /// The log.
        path: PathBuf,
        /// Bytes found.
        found: u64,
        /// Bytes recorded.
        expected: u64,
    },
}

impl RunError {
    pub(super) fn broken(path: &Path, reason: impl Into<String>) -> Self {
        Self::BrokenCheckpoint {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
