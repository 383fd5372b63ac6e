//! Progress of downloads. Weights are read in many places, far from a terminal: the program registers one listener for all.

use std::sync::OnceLock;

/// Receives what is downloaded, and its size in bytes, when a download begins. It returns a function that receives the bytes that have
/// arrived so far.
pub type Listener = fn(&str, u64) -> Box<dyn FnMut(u64)>;

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Registers the listener for all downloads of this process. Later calls have no effect.
pub fn listen(listener: Listener) {
    let _ = LISTENER.set(listener);
}

/// Reports one download to the listener: a function of the bytes done and the total.
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
