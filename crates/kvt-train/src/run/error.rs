//! Errors that stop a run because of its folder.

use std::io;
use std::path::{Path, PathBuf};

use kvt_data::text::{quoted, shell};

/// The key that names the folder of a run.
const FOLDER: &str = "run.dir";

/// An error of the run folder. Every message names the path and, if possible, a solution.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A failure of the file system; the message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A new run was requested where one already exists.
    #[error("run `{0}` exists: use `--resume` or another `run.dir`")]
    Exists(PathBuf),
    /// The folder of a new run cannot be created.
    #[error("could not make the folder `{path}`: {reason}; choose another `run.dir`")]
    NotMade {
        /// The run's folder.
        path: PathBuf,
        /// The file system's message.
        reason: String,
    },
    /// A run was to be read or resumed where there is none.
    #[error("`{0}` holds no run: it has no `config.toml`")]
    NotARun(PathBuf),
    /// A run without its configuration, although its checkpoints show that it had one.
    #[error(
        "run `{}` has lost its `config.toml`: write it again with `kvt config print CONFIG > {}`",
        .0.display(), shell(&.0.join("config.toml").display().to_string())
    )]
    ConfigLost(PathBuf),
    /// The folder of a new run holds foreign files.
    #[error("folder `{0}` is not empty and holds no run: choose another `run.dir`")]
    Foreign(PathBuf),
    /// Another process writes this run.
    #[error(
        "run `{path}` is being written by {holder}: wait for it, stop it, or use another `run.dir`"
    )]
    Locked {
        /// The run's folder.
        path: PathBuf,
        /// Process and host, as far as the lock file shows.
        holder: String,
    },
    /// The folder is no longer where the run writes.
    #[error(
        "run `{0}` was moved or deleted while it was trained, and nothing more is written to that path: continue it with `--resume` where \
         it is now"
    )]
    Moved(PathBuf),
    /// A class name that cannot be a line of `classes.txt`.
    #[error("class name {0:?} has a line break: rename its folder")]
    ClassName(String),
    /// A file of the run does not parse.
    #[error("`{path}`, line {line}: {reason}")]
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
        "no {which} checkpoint in `{path}`{}",
        if *.which == "best" { ": use `last`" } else { "" }
    )]
    NoCheckpoint {
        /// `last` or `best`.
        which: &'static str,
        /// The folder of checkpoints.
        path: PathBuf,
    },
    /// There are or were checkpoints, but none is usable.
    #[error(
        "no checkpoint in `{path}` can be used: {reason}; or restore the folder from a copy, or use another `run.dir` to train again"
    )]
    NoUsableCheckpoint {
        /// The folder of checkpoints.
        path: PathBuf,
        /// What is wrong with the requested one.
        reason: String,
    },
    /// All epochs were trained, but the checkpoints are gone.
    #[error(
        "run `{}` is finished, but its checkpoints are gone: restore `{}`, or use another `run.dir` to train again",
        .0.display(), .0.join("checkpoints").display()
    )]
    CheckpointsGone(PathBuf),
    /// A run resumes only from its own checkpoints.
    #[error(
        "`{path}` is not a checkpoint in `{folder}`: give one from that folder, or start a new run from other weights with `init.weights`"
    )]
    ForeignCheckpoint {
        /// The requested checkpoint.
        path: PathBuf,
        /// The folder of the run's checkpoints.
        folder: PathBuf,
    },
    /// A file where the folder of a checkpoint is expected.
    #[error(
        "`{path}` is a file, as PyTorch and Lightning write them, but the checkpoints of a run are folders, in `{folder}`: start a new run \
         from the weights in the file with `init.weights`"
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
    #[error("checkpoint `{path}` is broken: {reason}; restore it from a copy, or name another one")]
    BrokenCheckpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Which file is broken, and how.
        reason: String,
    },
}

impl RunError {
    /// The message if the folder of the run is given by `folder`, such as the option `--out`, rather than the key `run.dir`.
    pub fn with_folder(&self, folder: &str) -> String {
        let text = self.to_string();
        let (Self::Exists(_)
        | Self::NotMade { .. }
        | Self::Foreign(_)
        | Self::Locked { .. }
        | Self::NoUsableCheckpoint { .. }
        | Self::CheckpointsGone(_)) = self
        else {
            return text;
        };
        // The last one: what stands before it may have the same words.
        match text.rsplit_once(FOLDER) {
            Some((before, after)) => format!("{before}{folder}{after}"),
            None => text,
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
        // A path and a reason may be any text.
        let (path, reason) = (PathBuf::from("another `run.dir`"), "why".to_owned());
        let errors = [
            RunError::Exists(path.clone()),
            RunError::NotMade {
                path: path.clone(),
                reason: reason.clone(),
            },
            RunError::Foreign(path.clone()),
            RunError::Locked {
                path: path.clone(),
                holder: reason.clone(),
            },
            RunError::NoUsableCheckpoint {
                path: path.clone(),
                reason,
            },
            RunError::CheckpointsGone(path),
        ];
        for error in errors {
            let (key, option) = (error.to_string(), error.with_folder("--out"));
            assert!(option.contains("`another `run.dir`"), "{option}");
            // Two in the texts with the key: the path, and what names the folder.
            let other = key.matches("another `run.dir`").count();
            assert_eq!(option.matches("another `run.dir`").count() + 1, other);
            assert_eq!(option.matches("another `--out`").count(), 1, "{option}");
        }
        let other = RunError::NotARun("another `run.dir`".into());
        assert_eq!(other.with_folder("--out"), other.to_string());
    }
}
