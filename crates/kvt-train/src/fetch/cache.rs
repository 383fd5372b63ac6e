//! A repository in the cache that all programs for the hub share:
//!
//! ```text
//! models--timm--NAME/
//!   blobs/SHA-256             a file; `SHA-256.part` while it is downloaded
//!   refs/main                 the commit that was downloaded last
//!   snapshots/COMMIT/NAME     a link to the file
//!   NAME                      a file that a user has put there; only kvt reads it
//! ```

use std::io;
use std::path::PathBuf;

use fs_err as fs;

use super::sum::{Commit, Sum, of_file};

/// The folder of a repository.
#[derive(Debug)]
pub(super) struct Cache(pub(super) PathBuf);

impl Cache {
    /// The repository in `cache`, by default in `hub` of `HF_HOME`, or of `.cache/huggingface` in the home folder.
    ///
    /// # Errors
    /// If there is no `HF_HOME` and no home folder.
    pub(super) fn of(cache: Option<PathBuf>, repository: &str) -> io::Result<Self> {
        let cache = match cache {
            Some(cache) => cache,
            None => home()?.join("hub"),
        };
        // Messages name this path, and users may read them in another folder.
        let cache = std::path::absolute(cache)?;
        let folder = format!("models--{}", repository.replace('/', "--"));
        Ok(Self(cache.join(folder)))
    }

    /// The file with this sum; it need not exist.
    pub(super) fn blob(&self, sum: Sum) -> PathBuf {
        self.0.join("blobs").join(sum.to_string())
    }

    /// The path of a file in a commit.
    pub(super) fn path(&self, commit: Commit, name: &str) -> PathBuf {
        let folder = self.0.join("snapshots").join(commit.to_string());
        folder.join(name)
    }

    /// A file in the commit that was downloaded last, if its content has the sum that names it.
    pub(super) fn kept(&self, name: &str) -> io::Result<Option<(Commit, PathBuf)>> {
        let commit = fs::read_to_string(self.0.join("refs/main")).unwrap_or_default();
        let Some(commit) = Commit::parse(commit.trim()) else {
            return Ok(None);
        };
        let path = self.path(commit, name);
        let sum = fs::canonicalize(&path).ok().and_then(|file| {
            let sum = Sum::parse(file.file_name()?.to_str()?)?;
            (fs::canonicalize(self.blob(sum)).ok()? == file).then_some(sum)
        });
        match sum {
            Some(sum) if self.has(sum)? => Ok(Some((commit, path))),
            _ => Ok(None),
        }
    }

    /// Whether the file with this sum exists. If its content has another sum, it is damaged and deleted.
    pub(super) fn has(&self, sum: Sum) -> io::Result<bool> {
        let blob = self.blob(sum);
        if !blob.is_file() {
            return Ok(false);
        }
        let is_whole = of_file(&blob)? == sum;
        if !is_whole {
            fs::remove_file(blob)?;
        }
        Ok(is_whole)
    }
}

/// The folder that all programs for the hub share.
fn home() -> io::Result<PathBuf> {
    let named = std::env::var_os("HF_HOME").filter(|home| !home.is_empty());
    let of_user = || std::env::home_dir().map(|home| home.join(".cache/huggingface"));
    named.map(PathBuf::from).or_else(of_user).ok_or_else(|| {
        let words = "the home folder is not known: set `HF_HOME` to a folder for the cache";
        io::Error::new(io::ErrorKind::NotFound, words)
    })
}
