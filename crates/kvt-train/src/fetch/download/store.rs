//! What a download puts into the cache.

use std::io;
use std::path::PathBuf;

use fs_err as fs;
use kvt_data::fs::{parent, sync_folder, write_text};

use crate::fetch::cache::Cache;
use crate::fetch::sum::{Commit, Sum};

impl Cache {
    /// Links a downloaded file into a commit, and makes this the last commit.
    pub(super) fn link(&self, commit: Commit, name: &str, sum: Sum) -> io::Result<PathBuf> {
        let path = self.path(commit, name);
        let folder = parent(&path);
        fs::create_dir_all(folder)?;
        if path.is_symlink() || path.is_file() {
            fs::remove_file(&path)?;
        }
        #[cfg(unix)]
        {
            let blob = PathBuf::from("../../blobs").join(sum.to_string());
            fs::os::unix::fs::symlink(blob, &path)?;
        }
        #[cfg(not(unix))]
        fs::hard_link(self.blob(sum), &path)?;
        sync_folder(folder)?;
        fs::create_dir_all(self.0.join("refs"))?;
        write_text(&self.0.join("refs/main"), &commit.to_string())?;
        Ok(path)
    }
}
