//! What is wrong around a run's folder and does not stop it.

use std::path::PathBuf;

/// Something the user should know of that does not stop the run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
    /// A checkpoint was taken out of use.
    #[error("`{}` is now `{}`, and no longer used", .from.display(), .to.display())]
    SetAside {
        /// Its path so far.
        from: PathBuf,
        /// Where it is now.
        to: PathBuf,
    },
    /// There is no usable checkpoint of the best evaluation any more.
    #[error(
        "the best checkpoint ({metric} {value:.2} after epoch {}) is missing or broken: the next evaluation counts as the best so far",
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
    #[error("`{}` cannot be read ({reason}): it is kept as `{}`, and a new one is begun", .path.display(), .kept.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Its new name.
        kept: PathBuf,
    },
    /// The class list of a run does not fit its data, but the checkpoint's own record of the data does.
    #[error("`{}` is missing or altered ({reason}): written again from the data, which is that of the checkpoint", .path.display())]
    ClassList {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Lines of the log that do not parse.
    #[error(
        "`{}`, line {line}: {reason}; {} left out of tables and curves",
        .path.display(), if *.count == 1 { "it is".to_owned() } else { format!("{count} such lines are") }
    )]
    LogLines {
        /// The log.
        path: PathBuf,
        /// The first of them, counted from 1.
        line: usize,
        /// How many there are.
        count: usize,
        /// What is wrong with the first.
        reason: String,
    },
    /// The log is not as long as the checkpoint remembers it.
    #[error("`{}` ends after step {reached}, but the checkpoint was made after step {step}: the lines between are lost", .path.display())]
    LogTooShort {
        /// The log.
        path: PathBuf,
        /// The last step in it.
        reached: u64,
        /// The checkpoint's step.
        step: u64,
    },
}
