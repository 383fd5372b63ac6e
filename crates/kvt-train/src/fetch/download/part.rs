//! A partial file: what has been downloaded so far.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use kvt_data::fs::parent;

/// A partial file. Other processes that open it wait until it is closed.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) file: fs::File,
}

impl Part {
    /// Opens the partial file of `to`, or makes it. It waits while another process downloads the file, which may be complete afterwards.
    pub(super) fn open(to: &Path) -> io::Result<Self> {
        let path = to.with_added_extension("part");
        fs::create_dir_all(parent(to))?;
        loop {
            let mut options = fs::OpenOptions::new();
            let file = options.create(true).append(true).open(&path)?;
            // On a file system without locks, two simultaneous downloads spoil each other, which the checksum reveals.
            let _ = file.file().lock();
            // If the name no longer leads to the open file, another process has renamed or removed it: open it again.
            let is_same = fs::metadata(&path)
                .is_ok_and(|named| file.metadata().is_ok_and(|open| same(&named, &open)));
            if is_same || to.is_file() {
                return Ok(Self { path, file });
            }
        }
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

#[cfg(unix)]
fn same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Files that are open cannot be renamed or removed there.
#[cfg(not(unix))]
fn same(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}
