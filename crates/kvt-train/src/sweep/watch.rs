//! Who hears of work that goes over many runs.

use std::sync::atomic::AtomicBool;

use crate::engine::Workload;
use crate::run::Listener;

/// Who hears of work that takes long, and may stop it. Several threads may speak at once.
pub trait Watch: Sync {
    /// So many of so many steps are done.
    fn progress(&self, done: usize, of: usize);

    /// A line for people.
    fn say(&self, text: &str);

    /// Something is not as it should be, and the work goes on.
    fn warn(&self, text: &str);

    /// A run begins to train, with others or `alone`: what hears of it.
    fn training(&self, name: &str, workload: Workload, alone: bool) -> Box<dyn Listener>;

    /// Set once somebody asked to stop.
    fn stop(&self) -> &AtomicBool;
}
