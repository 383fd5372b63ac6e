//! The lock of a run's folder: a lock on the folder itself, and one on a file in it that names the holder.
//!
//! The folder is locked because a user can delete the file. The file is locked because some systems and network file systems cannot lock
//! a folder. Where neither can be locked, only the text in the file counts: it names the holder until the run ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::run::RunError;
use kvt_data::regular;

pub(super) const LOCK: &str = "run.lock";

/// How the line in the file begins.
const PROCESS: &str = "process ";

/// A lock that this process holds until it is dropped. The system releases it when the process dies.
#[derive(Debug)]
pub(super) struct Lock {
    run: PathBuf,
    /// Kept open, so that no other folder can get its number.
    #[cfg(unix)]
    folder: fs::File,
    file: fs::File,
    /// What the file says.
    holder: String,
    /// Why the system holds no lock, if it does not.
    unguarded: Option<io::Error>,
}

impl Lock {
    /// Locks a folder by `try_lock`.
    pub(super) fn take(
        run: &Path,
        try_lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, RunError> {
        let mut guarded = false;
        let mut refused = None;
        let mut lock = |file: &fs::File| match try_lock(file.file()) {
            Ok(()) => {
                guarded = true;
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(locked(run, "")),
            Err(TryLockError::Error(error)) => {
                refused = Some(error);
                Ok(())
            }
        };
        #[cfg(unix)]
        let folder = fs::File::open(run)?;
        #[cfg(unix)]
        lock(&folder)?;
        // Not truncated on opening: until we have the lock, the content is the holder's.
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(run.join(LOCK))?;
        lock(&file)?;
        let unguarded = refused.filter(|_| !guarded);
        if unguarded.is_some() {
            let mut written = String::new();
            file.read_to_string(&mut written)?;
            if may_live(written.trim()) {
                let hint = format!(
                    " (as `{}` says, where nothing can be locked: remove it if that process is gone)",
                    file.path().display()
                );
                return Err(locked(run, &hint));
            }
        }
        let holder = format!("{PROCESS}{} on `{}`", std::process::id(), host());
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{holder}")?;
        Ok(Self {
            run: run.to_owned(),
            #[cfg(unix)]
            folder,
            file,
            holder,
            unguarded,
        })
    }

    /// Checks that the path still leads to what is locked and, where only the text in the file counts, that it names this process.
    pub(super) fn check(&self) -> Result<(), RunError> {
        if !self.is_in_place()? {
            return Err(RunError::Moved(self.run.clone()));
        }
        if self.unguarded.is_some() && !self.is_named() {
            Err(locked(&self.run, ""))
        } else {
            Ok(())
        }
    }

    /// Whether the path leads to the locked folder.
    #[cfg(unix)]
    fn is_in_place(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt as _;
        let held = self.folder.metadata()?;
        let found = kvt_data::fs::if_there(fs::metadata(&self.run))?;
        Ok(found.is_some_and(|found| (found.dev(), found.ino()) == (held.dev(), held.ino())))
    }

    /// The system does not let a folder be moved in which a file is open.
    #[cfg(not(unix))]
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(self.run.is_dir())
    }

    /// Whether the file at its path says that this process holds the lock.
    fn is_named(&self) -> bool {
        let written = regular::read_to_string(&self.run.join(LOCK));
        written.is_ok_and(|written| written.trim() == self.holder)
    }

    pub(super) fn warning(&self) -> Option<String> {
        let reason = self.unguarded.as_ref()?;
        Some(format!(
            "`{}` is on a file system without locks ({reason}): only the process that `run.lock` in it names may write the run, and \
             after a crash on another machine that file has to be removed",
            self.run.display()
        ))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.unguarded.is_none() || matches!(self.is_in_place(), Ok(true)) && self.is_named() {
            // Otherwise the next start would report a process that has died.
            let _ = self.file.set_len(0);
        }
        // Closing the files is not enough: a process that another thread starts has copies of them until it executes its program.
        let _ = self.file.file().unlock();
        #[cfg(unix)]
        let _ = self.folder.file().unlock();
    }
}

/// Whether a lock file is of kvt: it names a process, or is empty.
pub(super) fn is_ours(file: &Path) -> bool {
    let written = regular::read_to_string(file);
    written.is_ok_and(|written| written.is_empty() || written.starts_with(PROCESS))
}

/// Whether the process that a lock file names may still run. On this machine the system knows. If the file names the number of this
/// process, it means one in an earlier container.
fn may_live(holder: &str) -> bool {
    let named = holder
        .strip_prefix(PROCESS)
        .and_then(|named| named.strip_suffix('`')?.split_once(" on `"));
    let Some((pid, host)) = named.and_then(|(pid, host)| Some((pid.parse::<u32>().ok()?, host)))
    else {
        return !holder.is_empty();
    };
    if host != self::host() {
        return true;
    }
    let number = Pid::from_u32(pid);
    let mut system = System::new();
    let only = ProcessesToUpdate::Some(&[number]);
    system.refresh_processes_specifics(only, true, ProcessRefreshKind::nothing());
    pid != std::process::id() && system.process(number).is_some()
}

fn host() -> String {
    System::host_name().unwrap_or_else(|| "an unknown host".to_owned())
}

/// The error for a locked folder. It names the holder, unless the file is gone or the system refuses to read a locked file.
fn locked(run: &Path, hint: &str) -> RunError {
    let holder = regular::read_to_string(&run.join(LOCK)).unwrap_or_default();
    let holder = match holder.trim() {
        "" => "another process",
        holder => holder,
    };
    RunError::Locked {
        path: run.to_owned(),
        holder: format!("{holder}{hint}"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn copies_of_the_files_hold_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Lock::take(folder.path(), File::try_lock);
        let lock = take().unwrap();
        // As in a process that was just forked.
        let _copies = [&lock.folder, &lock.file].map(|file| file.file().try_clone().unwrap());
        assert!(take().is_err());
        drop(lock);
        take().unwrap();
    }
}
