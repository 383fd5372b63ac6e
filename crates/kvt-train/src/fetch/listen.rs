//! Who is told of downloads. They happen wherever weights are read, far from a terminal.

use std::sync::OnceLock;

/// Is told of a download when it begins: of what, and how many bytes it has. What it returns is told the bytes that are there.
pub type Listener = fn(&str, u64) -> Box<dyn FnMut(u64)>;

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Tells a function of all downloads of this process. Only the first call counts.
pub fn listen(listener: Listener) {
    let _ = LISTENER.set(listener);
}

/// Tells of one download, given the bytes done and the total.
pub(super) fn telling(what: &str) -> impl FnMut(u64, u64) {
    let mut tell: Option<Box<dyn FnMut(u64)>> = None;
    move |done, total| {
        let begin = || match LISTENER.get() {
            Some(listener) => listener(what, total),
            None => Box::new(|_| {}),
        };
        tell.get_or_insert_with(begin)(done);
    }
}
