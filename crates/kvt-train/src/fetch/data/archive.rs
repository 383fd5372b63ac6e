//! Unpacks the `.tgz` of a data set, whose checksum has been verified: plain files only, and only into the folder.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use fs_err as fs;
use kvt_data::regular;
use tar::{Archive, EntryType};

use crate::fetch::FetchError;

/// Most bytes that an archive may unpack to: far more than any data set here has.
const LARGEST: u64 = 4 << 30;

/// Receives the parts of a file's path, and its content.
type Each<'a> = &'a mut dyn FnMut(&[&str], &mut dyn Read) -> Result<(), FetchError>;

/// Calls `each` for the files of an archive. Every part of a path is a safe file name on every system.
///
/// # Errors
/// If the archive is damaged or too large, or has a link, another special file, or a path that leads out of the folder.
pub(super) fn tgz(path: &Path, each: Each<'_>) -> Result<(), FetchError> {
    let refused = |reason: String| FetchError::archive(path, reason);
    let broken = |error: io::Error| refused(error.to_string());
    let file = BufReader::new(regular::open(path)?);
    let mut archive = Archive::new(MultiGzDecoder::new(file).take(LARGEST));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let bytes = entry.path_bytes().into_owned();
        let name = String::from_utf8_lossy(&bytes);
        let Some(parts) = parts(&name) else {
            return Err(refused(format!(
                "the path `{name}` leads out of the folder"
            )));
        };
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                each(&parts, &mut entry).map_err(|error| match error {
                    FetchError::Io(error) => broken(error),
                    other => other,
                })?;
            }
            EntryType::Directory | EntryType::XGlobalHeader => {}
            kind => {
                let reason = format!("`{name}` is a link or another special file ({kind:?})");
                return Err(refused(reason));
            }
        }
    }
    if archive.into_inner().limit() == 0 {
        return Err(refused(format!("it has more than {LARGEST} bytes")));
    }
    Ok(())
}

/// The parts of a relative path, if each is a safe file name on every system.
pub(super) fn parts(name: &str) -> Option<Vec<&str>> {
    if name.starts_with('/') {
        return None;
    }
    let parts = name.split('/');
    let parts: Vec<&str> = parts
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let is_safe = |part: &&str| {
        *part != ".." && !part.contains(['\\', ':']) && !part.chars().any(char::is_control)
    };
    parts.iter().all(is_safe).then_some(parts)
}

/// Writes a new file below `root`, and makes the folders on the way to it. `root` must exist: after a signal has removed it, it must
/// not appear again.
pub(super) fn write(
    root: &Path,
    folders: &[&str],
    file: &str,
    content: &mut dyn Read,
) -> Result<(), FetchError> {
    let path = make(root, folders)?.join(file);
    io::copy(content, &mut fs::File::create_new(path)?)?;
    Ok(())
}

/// Makes nested folders below `root`, the first one outermost, unless they exist.
pub(super) fn make(root: &Path, folders: &[&str]) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for folder in folders {
        path.push(folder);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(path)
}
