//! The temporary files and folders that this process is writing, so that a signal can end it without leaving them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::staging;

static KNOWN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn known() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a signal removes what is being written.
const TRIES: usize = 10;

/// A temporary file or folder is known while this lives.
#[derive(Debug)]
pub(super) struct Mark(PathBuf);

impl Mark {
    /// Makes a file or folder by `make`. It is known before a signal can come between.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn on<T: AsRef<Path>>(
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(T, Self)> {
        let mut known = known();
        let made = make()?;
        let path = made.as_ref().to_owned();
        known.insert(path.clone());
        Ok((made, Self(path)))
    }

    /// Calls `finish`, which gives the file or folder its name, unless the process is about to end: then this waits for the end.
    /// What is left under the temporary name stays known.
    pub(super) fn keep<T>(&self, finish: impl FnOnce() -> T) -> T {
        let _known = known();
        finish()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        known().remove(&self.0);
    }
}

/// Removes what this process is writing, and calls `end`, which ends the process. Whoever works on one of these files meets an
/// error, and waits where it would continue: no new one begins, and the process ends by `end` alone.
pub fn abandon(end: impl FnOnce()) {
    let known = known();
    // Some more times: whoever is making folders just now brings one back.
    for _ in 0..TRIES {
        for path in known.iter().filter(|path| path.exists()) {
            // What cannot be removed is left to the next start.
            if path.is_dir() {
                staging::discard(path);
            } else {
                drop(std::fs::remove_file(path));
            }
        }
    }
    end();
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_kept_is_known_until_the_mark_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (_, mark) = Mark::on(|| std::fs::create_dir(&path).map(|()| path.clone())).unwrap();
        assert_eq!(mark.keep(|| 1), 1);
        assert!(known().contains(&path));
        drop(mark);
        assert!(!known().contains(&path));
    }
}
