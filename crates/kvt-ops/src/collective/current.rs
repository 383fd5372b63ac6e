//! The group of the micro-batch that this thread works at.

use std::cell::RefCell;

use super::Group;

thread_local! {
    static CURRENT: RefCell<Option<Group>> = const { RefCell::new(None) };
}

/// The group of the micro-batch that this thread works at, or `None` where it is one process's alone.
pub fn current_group() -> Option<Group> {
    CURRENT.with_borrow(Clone::clone)
}

/// Does some work of this thread in a group. Layers ask for it by [`current_group`]: whether a micro-batch is shared is a
/// property of the micro-batch, not of the model.
pub fn with_group<R>(group: Option<Group>, work: impl FnOnce() -> R) -> R {
    /// Puts the group before it back, also where the work panics.
    struct Restore(Option<Group>);

    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    let _restore = Restore(CURRENT.replace(group));
    work()
}
