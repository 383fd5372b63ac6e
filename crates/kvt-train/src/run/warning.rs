//! Problems of a run's folder that do not stop the run.

use std::path::PathBuf;

/// A problem that the user should know of but that does not stop the run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Warning {
    /// The last checkpoint is unusable, and an older one is used.
    #[error("{reason}; falling back to `{used}`")]
    FellBack {
        /// What is wrong with the last checkpoint.
        reason: String,
        /// The checkpoint used instead.
        used: PathBuf,
    },
    /// The file system has no locks.
    #[error(
        "`{path}` is on a file system without locks ({reason}): only the process that `run.lock` in it names may write the run, and \
         after a crash on another machine that file has to be removed"
    )]
    NoLock {
        /// The run's folder.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// An old checkpoint could not be deleted.
    #[error("could not delete `{path}`: {reason}")]
    NotDeleted {
        /// The left-over folder.
        path: PathBuf,
        /// The file system's message.
        reason: String,
    },
    /// A checkpoint was taken out of use.
    #[error("`{from}` is now `{to}`, and no longer used")]
    SetAside {
        /// Its previous path.
        from: PathBuf,
        /// Its new path.
        to: PathBuf,
    },
    /// There is no usable checkpoint of the best evaluation any more.
    #[error(
        "the best checkpoint ({metric} {value:.2} of epoch {}) is missing or broken: the next evaluation counts as the best so far",
        .epoch + 1
    )]
    BestLost {
        /// Its epoch, from 0.
        epoch: u32,
        /// The metric by which it was the best.
        metric: &'static str,
        /// Its value.
        value: f64,
    },
    /// A record that the run does not depend on cannot be read.
    #[error("`{}` cannot be read ({reason}): it was renamed to `{}`, and a new one was started", .path.display(), .kept.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Its new name.
        kept: PathBuf,
    },
    /// The class list of a run does not match its data, but the checkpoint's own record of the data does.
    #[error("`{}` is missing or altered ({reason}): it was rewritten from the data, which matches the checkpoint", .path.display())]
    ClassList {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Lines of the log that do not parse.
    #[error(
        "`{path}`, line {line}: {reason}; {} left out of tables and curves",
        if *.count == 1 { "it is".to_owned() } else { format!("{count} such lines are") }
    )]
    LogLines {
        /// The log.
        path: PathBuf,
        /// The first of these lines, counted from 1.
        line: usize,
        /// How many lines there are.
        count: usize,
        /// What is wrong with the first line.
        reason: String,
    },
    /// The log is shorter than the checkpoint's record of it.
    #[error("`{}` ends after step {reached}, but the checkpoint was made after step {step}: the lines between are lost", .path.display())]
    LogTooShort {
        /// The log.
        path: PathBuf,
        /// The last step in it.
        reached: u64,
        /// The checkpoint's step.
        step: u64,
    },
    /// The table of epochs had what a log that lost lines no longer has.
    #[error("`{}` was written again from a log that has lost lines: the earlier table is kept as `{}`", .path.display(), .kept.display())]
    EpochsKept {
        /// The table.
        path: PathBuf,
        /// The copy of the earlier one.
        kept: PathBuf,
    },
}
