//! The place where a folder is written before it is renamed: a hidden folder next to the target, owned by one living process.
//!
//! The owner holds a lock on a file in the folder. The system releases it when the process dies for any reason, so a
//! folder whose lock can be taken was left behind.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::TempDir;

use super::temporary::Mark;
use super::{TEMPORARY_PREFIX, if_there};

const LOCK: &str = "lock";
const DATA: &str = "data";
/// Number of random characters after the prefix.
const RANDOM: usize = 6;
/// The suffix of a folder that is being removed.
const REMOVED: &str = "-old";

/// A folder owned by this process; removed when dropped.
#[derive(Debug)]
pub(super) struct Staging {
    folder: TempDir,
    /// Held until the folder is removed.
    _lock: File,
    /// Dropped after the folder.
    mark: Mark,
}

impl Staging {
    /// Creates a folder in `parent`.
    ///
    /// # Errors
    /// If a folder or file cannot be created.
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        loop {
            let (folder, mark) = Mark::on(|| {
                let mut builder = tempfile::Builder::new();
                builder.prefix(TEMPORARY_PREFIX).rand_bytes(RANDOM);
                builder.tempdir_in(parent)
            })?;
            if let Some(lock) = own(folder.path())? {
                return Ok(Self {
                    folder,
                    _lock: lock,
                    mark,
                });
            }
            // Another process considered the new folder left behind before it was locked.
        }
    }

    /// The path of the folder that is to be renamed. It is within the temporary folder, because only its owner can enter that.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    /// Renames that folder to `to`, and removes what was around it.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(super) fn keep(self, to: &Path) -> io::Result<()> {
        let data = self.data();
        let Self {
            folder,
            _lock,
            mark,
        } = self;
        let kept = mark.keep(|| fs::rename(&data, to));
        // In this order, so that a signal in between still finds the folder around it.
        drop(folder);
        drop(mark);
        kept
    }
}

/// Locks a new folder; `None` if another process is removing it.
fn own(folder: &Path) -> io::Result<Option<File>> {
    let Some(file) = if_there(open(folder))? else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => Ok(folder.join(LOCK).exists().then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        // On a file system without locks, no process can consider this folder left behind either.
        Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

fn open(folder: &Path) -> io::Result<File> {
    // Not truncated: it stays empty.
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true);
    Ok(options.open(folder.join(LOCK))?.into_file())
}

/// Removes a folder that a killed process left behind, and no other.
///
/// Errors are ignored, since these folders are harmless.
pub(super) fn remove_left_over(folder: &Path) {
    if is_staging(folder)
        && let Ok(lock) = open(folder)
        && lock.try_lock().is_ok()
    {
        discard(folder);
    }
}

/// Removes a folder whose parts may no longer be used. It is renamed first: whoever still writes into it, is about to rename
/// its content, or has created it and has no lock yet, finds nothing.
pub(super) fn discard(folder: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let removed = folder.with_file_name(if name.ends_with(REMOVED) {
        name.into_owned()
    } else {
        name.into_owned() + REMOVED
    });
    if fs::rename(folder, &removed).is_ok() {
        remove(&removed, |folder| fs::remove_dir_all(folder));
    }
}

/// Maximum number of attempts to empty a folder that is filled again.
const TRIES: usize = 100;

/// Removes a folder with files that others add at the same time: a process that looked up the folder by its old name just
/// before the rename still creates a lock in it, so the folder is no longer empty. Each process does so at most once.
fn remove(folder: &Path, mut remove: impl FnMut(&Path) -> io::Result<()>) {
    for _ in 0..TRIES {
        match remove(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // Any other error would occur again.
            _ => return,
        }
    }
}

/// Whether a folder is a staging folder, judged by the form of its name and by its content.
fn is_staging(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let random = name
        .and_then(|name| name.strip_prefix(TEMPORARY_PREFIX))
        .map(|random| random.strip_suffix(REMOVED).unwrap_or(random));
    if random.map(str::len) != Some(RANDOM) || folder.is_symlink() {
        return false;
    }
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    entries.is_ok_and(|entries| {
        let mut names = entries.iter().map(fs::DirEntry::file_name);
        names.all(|name| name == DATA || name == LOCK)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::fs::remove_leftovers;

    #[test]
    fn left_over_folders_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let living = Staging::create(parent.path()).unwrap();
        // Killed at different moments; the first one by a version that did not lock.
        fs::create_dir_all(at(".kvt-tmp-a1B2c3/data/train/circle")).unwrap();
        fs::write(at(".kvt-tmp-a1B2c3/data/train/circle/00000.png"), "x").unwrap();
        fs::create_dir_all(at(".kvt-tmp-dddddd/data")).unwrap();
        fs::write(at(".kvt-tmp-dddddd/lock"), "").unwrap();
        fs::create_dir(at(".kvt-tmp-eeeeee")).unwrap();
        fs::create_dir_all(at(".kvt-tmp-ffffff-old/data")).unwrap();
        // Folders that are not staging folders.
        for other in [
            ".kvt-tmp-photos",
            ".kvt-tmp-longer-name/data",
            "kvt-tmp-ffffff/data",
        ] {
            fs::create_dir_all(at(other)).unwrap();
        }
        fs::write(at(".kvt-tmp-photos/mine.png"), "x").unwrap();

        remove_leftovers(parent.path());
        let mut left: Vec<_> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        left.sort();
        let mut expected = vec![
            living.folder.path().to_owned(),
            at(".kvt-tmp-longer-name"),
            at(".kvt-tmp-photos"),
            at("kvt-tmp-ffffff"),
        ];
        expected.sort();
        assert_eq!(left, expected);
    }

    /// Simulates a process that looked a folder up before it was renamed, and creates its lock between the last listing and the
    /// removal.
    #[test]
    fn a_folder_that_is_filled_while_it_is_removed_goes_too() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join(".kvt-tmp-aaaaaa-old");
        fs::create_dir_all(folder.join(DATA)).unwrap();
        let mut late = 2;
        remove(&folder, |folder| {
            if late > 0 {
                late -= 1;
                fs::remove_dir_all(folder.join(DATA)).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })?;
                fs::write(folder.join(LOCK), "")?;
                return fs::remove_dir(folder);
            }
            fs::remove_dir_all(folder)
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        // A folder that cannot be removed is not tried forever.
        let mut tries = 0;
        remove(&folder, |_| {
            tries += 1;
            Err(io::ErrorKind::DirectoryNotEmpty.into())
        });
        assert_eq!(tries, TRIES);
    }

    #[test]
    fn a_dropped_folder_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let staging = Staging::create(parent.path()).unwrap();
        fs::create_dir(staging.data()).unwrap();
        drop(staging);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn many_that_clean_up_leave_each_other_alone() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        remove_leftovers(parent.path());
                        let staging = Staging::create(parent.path()).unwrap();
                        fs::create_dir(staging.data()).unwrap();
                        remove_leftovers(parent.path());
                        assert!(staging.data().is_dir());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
