//! A repository in the cache that all programs for the hub share:
//!
//! ```text
//! models--timm--NAME/
//!   blobs/SHA-256             a file; `SHA-256.part` while it is downloaded
//!   refs/main                 the commit that was downloaded last
//!   snapshots/COMMIT/NAME     a link to the file
//!   NAME                      only of kvt: a file that somebody has put there
//! ```

use std::io;
use std::path::PathBuf;

use fs_err as fs;

use super::sum::{Commit, Sum, of_file};

/// The folder of a repository.
#[derive(Debug)]
pub(super) struct Cache(pub(super) PathBuf);

impl Cache {
    /// Opens a repository in a cache, by default in that of the environment: `HF_HOME`, or `.cache/huggingface` in the user's folder.
    ///
    /// # Errors
    /// If neither is known.
    pub(super) fn of(cache: Option<PathBuf>, repository: &str) -> io::Result<Self> {
        let cache = match cache {
            Some(cache) => cache,
            None => home()?.join("hub"),
        };
        // The path that is printed is for other folders, too.
        let cache = std::path::absolute(cache)?;
        let folder = format!("models--{}", repository.replace('/', "--"));
        Ok(Self(cache.join(folder)))
    }

    /// The file of a content, whether it is there or not.
    pub(super) fn blob(&self, sum: Sum) -> PathBuf {
        self.0.join("blobs").join(sum.to_string())
    }

    /// Where a file is looked for that somebody has put there, without a commit.
    pub(super) fn placed(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a file of a commit.
    pub(super) fn path(&self, commit: Commit, name: &str) -> PathBuf {
        let folder = self.0.join("snapshots").join(commit.to_string());
        folder.join(name)
    }

    /// A file of the commit that was downloaded last, if it has the content by which it is named.
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

    /// Whether a file is there, with the content by which it is named; one with another is deleted.
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

/// The folder of all programs for the hub.
fn home() -> io::Result<PathBuf> {
    let named = std::env::var_os("HF_HOME").filter(|home| !home.is_empty());
    let of_user = || std::env::home_dir().map(|home| home.join(".cache/huggingface"));
    named.map(PathBuf::from).or_else(of_user).ok_or_else(|| {
        let words = "there is no folder of the user: name one for the cache in `HF_HOME`";
        io::Error::new(io::ErrorKind::NotFound, words)
    })
}
