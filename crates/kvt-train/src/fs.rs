//! Files that are written completely or not at all.
//!
//! A training machine can lose power, fill its disk or kill the process at any instruction. A file written with
//! [`write_atomic`] has either the old content or the new, never a part of it.

use std::fs::TryLockError;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::NamedTempFile;

/// The prefix of the temporary files of [`write_atomic`], which distinguishes leftovers from a user's files.
pub const TEMPORARY_PREFIX: &str = ".kvt-tmp-";

/// Writes `path` with `write`: to a temporary file in the same folder, then fsync, rename, and fsync of the folder.
///
/// # Errors
/// An error of `write` or of the file system; both name `path`, and the old file is unchanged.
pub fn write_atomic(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> io::Result<()>,
) -> io::Result<()> {
    persist(stage(path, write)?, path)?;
    sync_folder(parent(path))
}

/// Writes a text to `path`, as [`write_atomic`].
///
/// # Errors
/// An error of the file system, which names `path`; the old file is unchanged.
pub fn write_text(path: &Path, text: &str) -> io::Result<()> {
    write_atomic(path, |file| file.write_all(text.as_bytes()))
}

/// Writes several files that belong together. `write` gets the index of the file. The files are renamed only when all
/// are on the disk, so that a full disk leaves the old ones.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_together(
    paths: &[PathBuf],
    write: impl Fn(usize, &mut BufWriter<&mut std::fs::File>) -> io::Result<()>,
) -> io::Result<()> {
    let stage = |(number, path): (usize, &PathBuf)| stage(path, |file| write(number, file));
    let staged: Vec<_> = paths
        .iter()
        .enumerate()
        .map(stage)
        .collect::<io::Result<_>>()?;
    for (file, path) in staged.into_iter().zip(paths) {
        persist(file, path)?;
        sync_folder(parent(path))?;
    }
    Ok(())
}

/// Writes the content of `path` to a temporary file in its folder, and syncs it to the disk.
fn stage(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let named = |error| named(path, &error);
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private to the user by default; the umask still applies to this mode.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = loop {
        let made = builder.tempfile_in(parent(path));
        let file = made.map_err(|error| not_made(path, &error))?;
        // Tells `remove_leftovers` that the file is in use; on a system without locks, it removes nothing.
        let is_taken = matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
        // Before the lock was taken, another process may have considered the file a leftover.
        if !is_taken && file.path().exists() {
            break file;
        }
    };
    let mut writer = BufWriter::new(file.as_file_mut());
    write(&mut writer)
        .and_then(|()| writer.flush())
        .map_err(named)?;
    drop(writer);
    file.as_file().sync_all().map_err(named)?;
    Ok(file)
}

fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    let persisted = file.persist(path);
    persisted
        .map(|_| ())
        .map_err(|error| named(path, &error.error))
}

/// Why no temporary file could be created, without its name, which is unknown to the user.
fn not_made(path: &Path, error: &io::Error) -> io::Error {
    let folder = parent(path);
    let reason = match folder.is_dir() {
        true => error.kind().to_string(),
        false => format!("there is no folder `{}`", folder.display()),
    };
    named(path, &io::Error::new(error.kind(), reason))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let message = format!("could not write `{}`: {error}", path.display());
    io::Error::new(error.kind(), message)
}

/// Checks whether [`write_atomic`] could write `path`, before long work begins.
///
/// # Errors
/// If its folder is missing or not writable, or `path` is a folder; the message names it.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let kind = io::ErrorKind::IsADirectory;
        return Err(named(path, &io::Error::new(kind, "it is a folder")));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    match builder.tempfile_in(parent(path)) {
        Ok(_) => Ok(()),
        Err(error) => Err(not_made(path, &error)),
    }
}

/// Deletes the temporary files that killed processes left in a folder, but none that is being written.
///
/// # Errors
/// If the folder cannot be read or a file cannot be deleted.
pub fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let temporary = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY_PREFIX));
        if temporary {
            match remove_leftover(&entry) {
                // Completed in the meantime, or deleted by another process.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
    }
    Ok(())
}

/// Deletes a temporary file that is not in use.
fn remove_leftover(entry: &fs::DirEntry) -> io::Result<()> {
    if entry.file_type()?.is_file() {
        let file = fs::File::open(entry.path())?;
        if file.file().try_lock().is_ok() {
            // Deleted while locked, so that no other process can start to use it.
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes the names inside `folder` (creations, renames) durable, if the platform supports it.
///
/// # Errors
/// If the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The first of `path.1`, `path.2`, ... that does not exist: the new name for a file that is replaced.
pub(crate) fn free_path(path: &Path) -> PathBuf {
    let mut number = 1_u64;
    loop {
        let mut free = path.as_os_str().to_owned();
        free.push(format!(".{number}"));
        if !Path::new(&free).exists() {
            return free.into();
        }
        number += 1;
    }
}

/// The folder that contains `path`; `.` for a bare file name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn replaces_the_whole_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "a much longer old content").unwrap();
        write_atomic(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        write_text(&path, "grün\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "grün\n");
    }

    #[test]
    fn a_failing_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "old").unwrap();
        let error = write_atomic(&path, |file| {
            // More than the buffer holds, so that some bytes have reached the disk.
            file.write_all(&[b'x'; 100_000])?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "disk full"))
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("a.txt"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_that_belong_together_are_written_together() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.txt", "b.txt"].map(|name| folder.path().join(name));
        let write = |number: usize, file: &mut BufWriter<&mut std::fs::File>| {
            file.write_all(["one", "two"][number].as_bytes())
        };
        write_together(&paths, write).unwrap();
        let error = write_together(&paths, |number, file| match number {
            0 => file.write_all(b"new"),
            _ => Err(io::Error::new(io::ErrorKind::StorageFull, "disk full")),
        });
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("b.txt") && error.contains("disk full"),
            "{error}"
        );
        let content = paths
            .each_ref()
            .map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(content, ["one", "two"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn left_over_files_go_but_not_those_in_the_making() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{TEMPORARY_PREFIX}a1b2"));
        fs::write(&left, "half").unwrap();
        let path = folder.path().join("a.txt");
        write_atomic(&path, |file| {
            remove_leftovers(folder.path())?;
            file.write_all(b"whole")
        })
        .unwrap();
        assert!(!left.exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none").join("a.txt");
        let error = write_atomic(&path, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("a.txt"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        check_writable(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        for path in [
            folder.path().to_owned(),
            folder.path().join("none").join("a.txt"),
            path.join("a.txt"),
        ] {
            let error = check_writable(&path).unwrap_err().to_string();
            assert!(!error.contains(TEMPORARY_PREFIX), "{error}");
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert!(write_atomic(&path, |_| Ok(())).is_err());
        }
    }

    /// Files cannot be created there, even by a privileged user.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_takes_no_file_is_told_without_the_temporary_one() {
        let path = Path::new("/proc/a.txt");
        let errors = [check_writable(path), write_text(path, "")];
        for error in errors.map(|result| result.unwrap_err().to_string()) {
            assert!(
                error.starts_with("could not write `/proc/a.txt`: "),
                "{error}"
            );
            assert!(!error.contains(TEMPORARY_PREFIX), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_what_the_umask_lets_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (plain, atomic) = (folder.path().join("plain"), folder.path().join("atomic"));
        fs::write(&plain, "").unwrap();
        write_atomic(&atomic, |_| Ok(())).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&plain), mode(&atomic));
    }
}
