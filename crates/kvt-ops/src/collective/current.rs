//! The group of the micro-batch that this thread works on.

use std::cell::RefCell;

use super::Group;

thread_local! {
    static CURRENT: RefCell<Option<Group>> = const { RefCell::new(None) };
}

/// The group of the micro-batch that this thread works on, or `None` if the micro-batch is not shared between processes.
pub fn current_group() -> Option<Group> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs `work` on this thread in a group. Layers read it with [`current_group`]: whether a micro-batch is shared is a
/// property of the micro-batch, not of the model.
pub fn with_group<R>(group: Option<Group>, work: impl FnOnce() -> R) -> R {
    /// Restores the previous group, even if the work panics.
    struct Restore(Option<Group>);

    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    let _restore = Restore(CURRENT.replace(group));
    work()
}
