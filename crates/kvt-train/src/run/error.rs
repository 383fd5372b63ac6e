//! Errors that stop a run because of its folder.

use kvt_data::text::shell;
use std::io;
use std::path::{Path, PathBuf};

use kvt_data::text::quoted;

/// An error of the run folder. Every message names the path and, if possible, a solution.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A failure of the file system; the message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A new run was requested where one already exists.
    #[error("{}", exists(.path, FOLDER))]
    Exists {
        /// The run's folder.
        path: PathBuf,
    },
    /// The folder of a new run cannot be created.
    #[error("{}", not_made(.path, .reason, FOLDER))]
    NotMade {
        /// The run's folder.
        path: PathBuf,
        /// The file system's message.
        reason: String,
    },
    /// A run was to be read or resumed where there is none.
    #[error("`{}` holds no run: it has no `config.toml`", .path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A run without its configuration, although its checkpoints show that it had one.
    #[error(
        "run `{}` has lost its `config.toml`: write it again with `kvt config print CONFIG > {}`",
        .path.display(), shell(&.path.join("config.toml").display().to_string())
    )]
    ConfigLost {
        /// The run's folder.
        path: PathBuf,
    },
    /// The folder of a new run holds foreign files.
    #[error("{}", foreign(.path, FOLDER))]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes this run.
    #[error("{}", locked(.path, .holder, FOLDER))]
    Locked {
        /// The run's folder.
        path: PathBuf,
        /// Process and host, as far as the lock file shows.
        holder: String,
    },
    /// The folder is no longer where the run writes.
    #[error(
        "run `{}` was moved or deleted while it was trained, and nothing more is written to that path: continue it with `--resume` where \
         it is now",
        .path.display()
    )]
    Moved {
        /// The path at which the run was.
        path: PathBuf,
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
        /// The parser's message.
        reason: String,
    },
    /// There is no checkpoint to start from.
    #[error(
        "no {which} checkpoint in `{}`{}", .path.display(),
        if *.which == "best" { ": use `last`" } else { "" }
    )]
    NoCheckpoint {
        /// `last` or `best`.
        which: &'static str,
        /// The folder of checkpoints.
        path: PathBuf,
    },
    /// There are or were checkpoints, but none is usable.
    #[error("{}", no_usable_checkpoint(.path, .reason, FOLDER))]
    NoUsableCheckpoint {
        /// The folder of checkpoints.
        path: PathBuf,
        /// What is wrong with the requested one.
        reason: String,
    },
    /// All epochs were trained, but the checkpoints are gone.
    #[error("{}", checkpoints_gone(.path, FOLDER))]
    CheckpointsGone {
        /// The run's folder.
        path: PathBuf,
    },
    /// A run resumes only from its own checkpoints.
    #[error(
        "`{}` is not a checkpoint in `{}`: give one from that folder, or start a new run from other weights with `init.weights`",
        .path.display(), .folder.display()
    )]
    ForeignCheckpoint {
        /// The requested checkpoint.
        path: PathBuf,
        /// The folder of the run's checkpoints.
        folder: PathBuf,
    },
    /// A file where the folder of a checkpoint is expected.
    #[error(
        "`{}` is a file, as PyTorch and Lightning write them, but the checkpoints of a run are folders, in `{}`: start a new run \
         from the weights in the file with `init.weights`",
        .path.display(), .folder.display()
    )]
    FileAsCheckpoint {
        /// The file.
        path: PathBuf,
        /// The folder of the run's checkpoints.
        folder: PathBuf,
    },
    /// There is no checkpoint with that name.
    #[error(
        "no checkpoint `{}`: `{}` has {}; or take `last` or `best`", .path.display(), .folder.display(), quoted(names)
    )]
    NoSuchCheckpoint {
        /// The requested checkpoint.
        path: PathBuf,
        /// The folder of the run's checkpoints.
        folder: PathBuf,
        /// The names of existing checkpoints, newest first.
        names: Vec<String>,
    },
    /// A checkpoint is incomplete or altered.
    #[error("checkpoint `{}` is broken: {reason}; restore it from a copy, or name another one", .path.display())]
    BrokenCheckpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Which file is broken, and how.
        reason: String,
    },
}

/// The configuration key of the run's folder.
const FOLDER: &str = "run.dir";

fn exists(path: &Path, folder: &str) -> String {
    let path = path.display();
    format!("run `{path}` exists: use `--resume` or another `{folder}`")
}

fn not_made(path: &Path, reason: &str, folder: &str) -> String {
    let path = path.display();
    format!("could not make the folder `{path}`: {reason}; choose another `{folder}`")
}

fn foreign(path: &Path, folder: &str) -> String {
    let path = path.display();
    format!("folder `{path}` is not empty and holds no run: choose another `{folder}`")
}

fn locked(path: &Path, holder: &str, folder: &str) -> String {
    let path = path.display();
    format!(
        "run `{path}` is being written by {holder}: wait for it, stop it, or use another `{folder}`"
    )
}

fn no_usable_checkpoint(path: &Path, reason: &str, folder: &str) -> String {
    format!(
        "no checkpoint in `{}` can be used: {reason}; or restore the folder from a copy, or use another \
         `{folder}` to train again",
        path.display()
    )
}

fn checkpoints_gone(path: &Path, folder: &str) -> String {
    format!(
        "run `{}` is finished, but its checkpoints are gone: restore `{}`, or use another `{folder}` to train again",
        path.display(),
        path.join("checkpoints").display()
    )
}

impl RunError {
    /// The message if the folder of the run was given by something other than the key `run.dir`, such as the option `--out`.
    pub fn with_folder(&self, name: &str) -> String {
        match self {
            Self::Exists { path } => exists(path, name),
            Self::NotMade { path, reason } => not_made(path, reason, name),
            Self::Foreign { path } => foreign(path, name),
            Self::Locked { path, holder } => locked(path, holder, name),
            Self::NoUsableCheckpoint { path, reason } => no_usable_checkpoint(path, reason, name),
            Self::CheckpointsGone { path } => checkpoints_gone(path, name),
            other => other.to_string(),
        }
    }

    pub(super) fn broken(path: &Path, reason: impl Into<String>) -> Self {
        Self::BrokenCheckpoint {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the name of the folder's option or key differs, and no other message mentions the key.
    #[test]
    fn a_way_out_names_what_names_the_folder() {
        let (path, reason) = (PathBuf::from("a/run.dir"), "why".to_owned());
        let errors = [
            RunError::Exists { path: path.clone() },
            RunError::NotMade {
                path: path.clone(),
                reason: reason.clone(),
            },
            RunError::Foreign { path: path.clone() },
            RunError::Locked {
                path: path.clone(),
                holder: reason.clone(),
            },
            RunError::NoUsableCheckpoint {
                path: path.clone(),
                reason,
            },
            RunError::CheckpointsGone { path },
        ];
        for error in errors {
            let (key, option) = (error.to_string(), error.with_folder("--out"));
            assert!(option.contains("another `--out`"), "{option}");
            // The folder itself may have any name.
            assert!(option.contains("`a/run.dir"), "{option}");
            assert_eq!(key.replace("another `run.dir`", "another `--out`"), option);
        }
        let other = RunError::NotARun { path: "x".into() };
        assert_eq!(other.with_folder("--out"), other.to_string());
    }
}
