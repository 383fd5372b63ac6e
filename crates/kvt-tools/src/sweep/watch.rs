//! The observer of work on many runs.

use std::sync::atomic::AtomicBool;

use kvt_train::engine::Workload;
use kvt_train::run::Listener;

/// Observes long work, and may stop it. Several threads may call it at once.
pub trait Watch: Sync {
    /// `done` of `of` steps are done.
    fn progress(&self, done: usize, of: usize);

    /// `done` of `of` images of a data set are generated.
    fn generating(&self, done: usize, of: usize);

    /// Shows a line to the user.
    fn say(&self, text: &str);

    /// Warns of a problem that does not stop the work.
    fn warn(&self, text: &str);

    /// A run begins to train, in parallel with others or `alone`: returns its listener.
    fn training(&self, name: &str, workload: Workload, alone: bool) -> Box<dyn Listener>;

    /// Set once a stop is requested.
    fn stop(&self) -> &AtomicBool;
}
