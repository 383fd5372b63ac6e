//! A repository in the cache that all programs for the hub share:
//!
//! ```text
//! models--timm--NAME/
//!   blobs/SHA-256             a file; `SHA-256.part` while it is downloaded
//!   refs/main                 the commit that was downloaded last
//!   snapshots/COMMIT/NAME     a link to the file
//! ```

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::of_file;
use kvt_data::fs::{parent, sync_folder, write_atomic, write_text};

/// A number of `N` bytes, which is written in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digits<const N: usize>([u8; N]);

/// The SHA-256 of a file, by which it is named.
pub(super) type Sum = Digits<32>;
/// The commit of a repository.
pub(super) type Commit = Digits<20>;

impl<const N: usize> Digits<N> {
    pub(super) fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// Reads exactly as many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 2 * N)?;
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Some(Self(bytes))
    }
}

impl<const N: usize> fmt::Display for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The folder of a repository.
#[derive(Debug)]
pub(super) struct Cache(PathBuf);

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

    fn blob(&self, sum: Sum) -> PathBuf {
        self.0.join("blobs").join(sum.to_string())
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

    /// Opens the part of a file that was downloaded, and waits while another process downloads it: the whole file may then be there.
    pub(super) fn part(&self, sum: Sum) -> io::Result<Part> {
        let to = self.blob(sum);
        let path = to.with_extension("part");
        fs::create_dir_all(self.0.join("blobs"))?;
        loop {
            let mut options = fs::OpenOptions::new();
            let file = options.create(true).append(true).open(&path)?;
            // On a file system without locks, two downloads at once fail by the checksum.
            let _ = file.file().lock();
            // Another process has renamed or removed it meanwhile, unless the name still leads to what is open.
            let is_same = fs::metadata(&path)
                .is_ok_and(|named| file.metadata().is_ok_and(|open| same(&named, &open)));
            if is_same || to.is_file() {
                return Ok(Part { path, to, file });
            }
        }
    }

    /// Puts a downloaded file into a commit, which becomes the last.
    pub(super) fn link(&self, commit: Commit, name: &str, sum: Sum) -> io::Result<PathBuf> {
        let path = self.path(commit, name);
        let folder = parent(&path);
        fs::create_dir_all(folder)?;
        if path.is_symlink() || path.is_file() {
            fs::remove_file(&path)?;
        }
        #[cfg(unix)]
        {
            let blob = Path::new("../../blobs").join(sum.to_string());
            fs::os::unix::fs::symlink(blob, &path)?;
        }
        #[cfg(not(unix))]
        fs::hard_link(self.blob(sum), &path)?;
        sync_folder(folder)?;
        fs::create_dir_all(self.0.join("refs"))?;
        write_text(&self.0.join("refs/main"), &commit.to_string())?;
        Ok(path)
    }

    /// Whether there is such a file of a commit.
    pub(super) fn holds(&self, commit: Commit, name: &str) -> bool {
        self.path(commit, name).exists()
    }

    /// Writes a small file of a commit.
    pub(super) fn write(&self, commit: Commit, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(commit, name);
        write_atomic(&path, |file| file.write_all(bytes))
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

/// The folder of all programs for the hub.
fn home() -> io::Result<PathBuf> {
    let named = std::env::var_os("HF_HOME").filter(|home| !home.is_empty());
    let of_user = || std::env::home_dir().map(|home| home.join(".cache/huggingface"));
    named.map(PathBuf::from).or_else(of_user).ok_or_else(|| {
        let words = "there is no folder of the user: name one for the cache in `HF_HOME`";
        io::Error::new(io::ErrorKind::NotFound, words)
    })
}

/// A file that is being downloaded. Others wait while it is open.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    to: PathBuf,
    pub(super) file: fs::File,
}

impl Part {
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// Makes it the file.
    pub(super) fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.to)
    }

    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
