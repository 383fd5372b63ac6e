//! Where a path leads to that is to be written: to a file, which is replaced as a whole, or to a device or a pipe.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::parent;

/// Links that are followed before they count as a circle, as Linux counts them.
const LINKS: usize = 40;

/// What is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A file, or the place of one. It is no link.
    File(PathBuf),
    /// A device, a pipe, or what an open descriptor leads to, which can only be written into: its path, and the number of the descriptor, if
    /// it is one of this process, as behind `/dev/stdout`.
    Stream(PathBuf, Option<u32>),
}

impl Target {
    /// Follows the links of `path`.
    ///
    /// # Errors
    /// If links lead in a circle, or the path leads to a folder or to a file that is read-only: the latter by its mode, which the
    /// system does not respect for a privileged user, or because it cannot be opened.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            if let Some(descriptor) = descriptor(&path) {
                return Ok(Self::Stream(path, Some(descriptor)));
            }
            // An error is that it is no link.
            let Ok(link) = std::fs::read_link(&path) else {
                return Self::at_end(path);
            };
            path = parent(&path).join(link);
        }
        let words = "its links lead in a circle";
        Err(io::Error::new(io::ErrorKind::InvalidInput, words))
    }

    /// The target of a path that is no link.
    fn at_end(path: PathBuf) -> io::Result<Self> {
        let Ok(found) = std::fs::metadata(&path) else {
            // Nothing is there yet, or nothing can be: making the file says what is wrong.
            return Ok(Self::File(path));
        };
        if found.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a folder",
            ));
        }
        if !found.is_file() {
            return Ok(Self::Stream(path, None));
        }
        if found.permissions().readonly() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is read-only: make it writable, or choose another name",
            ));
        }
        OpenOptions::new().write(true).open(&path)?;
        Ok(Self::File(path))
    }
}

/// The number of the open descriptor of this process that `path` names: an entry of `/dev/fd`.
fn descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = std::fs::canonicalize(parent(path)).ok()?;
    // On Linux the first is a link to the second, and that to a folder that bears the number of the process.
    let mut own = ["/dev/fd", "/proc/self/fd"]
        .iter()
        .map(std::fs::canonicalize);
    own.any(|own| own.is_ok_and(|own| own == folder))
        .then_some(number)
}

/// Opens a stream for writing.
///
/// # Errors
/// If it cannot be opened, or is a pipe from which nothing reads.
pub(super) fn open(path: &Path, descriptor: Option<u32>) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
        // The same open file as that of our other output, so that neither overwrites the other.
        match descriptor {
            Some(1) => return Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Some(2) => return Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
            _ => {}
        }
        if std::fs::metadata(path)?.file_type().is_fifo() {
            // To open a pipe waits for a reader, perhaps forever; to open it like this is an error if there is none.
            let mut now = OpenOptions::new();
            now.write(true).custom_flags(libc::O_NONBLOCK);
            let _kept = now.open(path).map_err(|error| {
                if error.raw_os_error() == Some(libc::ENXIO) {
                    io::Error::new(error.kind(), "nothing reads from this pipe")
                } else {
                    error
                }
            })?;
            return OpenOptions::new().write(true).open(path);
        }
    }
    #[cfg(not(unix))]
    let _ = descriptor;
    OpenOptions::new().append(true).open(path)
}
