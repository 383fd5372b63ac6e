//! Regular files. Where one is expected, nothing else is opened: a pipe could block forever, and a device has no end.
//! [`read_text`](crate::text::read_text) also reads what a shell hands over.

use std::fs::{File, FileType};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file, or a link to one.
///
/// # Errors
/// The reason without the path, for [`named`]: the file is missing, of another kind, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before opening: opening a pipe blocks until it has a writer.
    let found = std::fs::metadata(path)?.file_type();
    if found.is_file() {
        return File::open(path);
    }
    let reason = format!("{}, not a file", kind(found));
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// The content of a regular file.
///
/// # Errors
/// As [`open`]; the message names the file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, u64::MAX)
}

/// The content of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and if it is longer; the message names it.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    open(path)
        .and_then(|file| content(file, most))
        .map_err(|error| named(path, &error))
}

/// The text of a regular file.
///
/// # Errors
/// As [`read`], and if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        named(path, &error)
    })
}

/// What an open file holds, if it is at most `most` bytes long.
pub(crate) fn content(file: File, most: u64) -> io::Result<Vec<u8>> {
    let bytes = beginning(file, most.saturating_add(1))?;
    if bytes.len() as u64 <= most {
        Ok(bytes)
    } else {
        let reason = format!("it is longer than {most} bytes");
        Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }
}

/// The first `most` bytes of an open file, or all if it has fewer.
pub(crate) fn beginning(file: File, most: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len().min(most);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The file may grow, and some file systems do not report a size.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An error of reading with the path in its message.
pub fn named(path: &Path, error: &io::Error) -> io::Error {
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("no file `{}`", path.display()),
        _ => format!("failed to read `{}`: {error}", path.display()),
    };
    io::Error::new(error.kind(), message)
}

fn kind(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.is_fifo() {
            return "a named pipe";
        }
        if found.is_socket() {
            return "a socket";
        }
        if found.is_char_device() || found.is_block_device() {
            return "a device";
        }
    }
    if found.is_dir() {
        "a folder"
    } else {
        "something else"
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path).unwrap(), b"12345");
        assert_eq!(read_to_string(&path).unwrap(), "12345");
        assert_eq!(read_at_most(&path, 5).unwrap(), b"12345");
        let name = path.display().to_string();
        let expected = format!("failed to read `{name}`: it is longer than 4 bytes");
        assert_eq!(read_at_most(&path, 4).unwrap_err().to_string(), expected);
        std::fs::write(&path, [0xff]).unwrap();
        let binary = read_to_string(&path).unwrap_err().to_string();
        assert_eq!(
            binary,
            format!("failed to read `{name}`: it is not UTF-8 text")
        );
        let missing = read(&dir.path().join("b.bin")).unwrap_err();
        assert!(missing.to_string().starts_with("no file `"), "{missing}");
        let folder = read(dir.path()).unwrap_err().to_string();
        assert!(folder.ends_with("a folder, not a file"), "{folder}");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_else_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let link = dir.path().join("zero");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, reason) in [
            (pipe, "a named pipe, not a file"),
            (link, "a device, not a file"),
        ] {
            assert_eq!(open(&path).unwrap_err().to_string(), reason);
        }
    }
}
