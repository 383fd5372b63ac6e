//! Files that are written completely or not at all.
//!
//! A training machine can lose power, fill its disk or kill the process at any instruction. A file written with
//! [`write_atomic`] has either the old content or the new, never a part of it. What a killed process was writing is removed by
//! `abandon` on its way out, or by the next [`remove_leftovers`].

mod staging;
mod target;
mod temporary;

use std::fs::TryLockError;
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use fs_err as fs;
use tempfile::NamedTempFile;

use self::staging::Staging;
use self::target::Target;
use self::temporary::Mark;
pub use self::temporary::abandon;

/// The prefix of temporary files and folders, which distinguishes leftovers from what a user has.
pub const TEMPORARY_PREFIX: &str = ".kvt-tmp-";

/// Writes `path` with `write`: to a temporary file in the same folder, then fsync, rename, and fsync of the folder. Of a link,
/// the file is replaced to which it leads. A device or a pipe, which cannot be replaced, is written into.
///
/// # Errors
/// An error of `write` or of the file system, or an existing file that is read-only; all name the path, and the old file is
/// unchanged.
pub fn write_atomic(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> io::Result<()>,
) -> io::Result<()> {
    stage(path, write)?.map_or(Ok(()), Staged::persist)
}

/// Writes a text to `path`, as [`write_atomic`].
///
/// # Errors
/// As [`write_atomic`].
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
    staged.into_iter().flatten().try_for_each(Staged::persist)
}

/// A file with its whole content, under a temporary name.
struct Staged {
    file: NamedTempFile,
    to: PathBuf,
    /// Dropped after the file.
    mark: Mark,
}

impl Staged {
    fn persist(self) -> io::Result<()> {
        let Self { file, to, mark } = self;
        let kept = mark.keep(|| file.persist(&to));
        kept.map_err(|error| named(&to, &error.error))?;
        sync_folder(parent(&to))
    }
}

/// Writes the content of `path` to a temporary file in its folder, and syncs it to the disk; `None` if it went into a device or a
/// pipe.
fn stage(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> io::Result<()>,
) -> io::Result<Option<Staged>> {
    let fill = |file: &mut std::fs::File, path: &Path| {
        let mut writer = BufWriter::new(file);
        let written = write(&mut writer).and_then(|()| writer.flush());
        // What could not be written would be tried again when the writer is dropped.
        let _ = writer.into_parts();
        written.map_err(|error| named(path, &error))
    };
    let to = match Target::of(path).map_err(|error| named(path, &error))? {
        Target::File(to) => to,
        Target::Stream(stream, descriptor) => {
            let opened = target::open(&stream, descriptor);
            let mut opened = opened.map_err(|error| named(path, &error))?;
            return fill(&mut opened, path).map(|()| None);
        }
    };
    // The file is removed before it is forgotten.
    let (mark, mut file) = loop {
        let (file, mark) = temporary(&to)?;
        // Tells `remove_leftovers` that the file is in use; on a system without locks, it removes nothing.
        let is_taken = matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
        // Before the lock was taken, another process may have considered the file a leftover.
        if !is_taken && file.path().exists() {
            break (mark, file);
        }
    };
    fill(file.as_file_mut(), &to)?;
    file.as_file()
        .sync_all()
        .map_err(|error| named(&to, &error))?;
    Ok(Some(Staged { file, to, mark }))
}

/// An empty file beside `path`, which is removed when it is dropped.
fn temporary(path: &Path) -> io::Result<(NamedTempFile, Mark)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private to the user by default; the umask still applies to this mode.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let made = Mark::on(|| builder.tempfile_in(parent(path)));
    let (file, mark) = made.map_err(|error| not_made(path, &error))?;
    // A file that is replaced keeps its mode.
    if let Ok(old) = std::fs::metadata(path) {
        let kept = file.as_file().set_permissions(old.permissions());
        kept.map_err(|error| named(path, &error))?;
    }
    Ok((file, mark))
}

/// Why no temporary file could be created, without its name, which is unknown to the user.
fn not_made(path: &Path, error: &io::Error) -> io::Error {
    let folder = parent(path);
    let reason = if folder.is_dir() {
        error.kind().to_string()
    } else {
        format!("there is no folder `{}`", folder.display())
    };
    named(path, &io::Error::new(error.kind(), reason))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let message = format!("could not write `{}`: {error}", path.display());
    io::Error::new(error.kind(), message)
}

/// Checks whether [`write_atomic`] could write `path`, before long work begins, and removes what killed processes left beside it.
///
/// # Errors
/// If its folder is missing or not writable, or `path` is a folder or a read-only file; the message names it.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match Target::of(path).map_err(|error| named(path, &error))? {
        Target::File(to) => {
            remove_leftovers(parent(&to));
            let (file, _mark) = temporary(&to)?;
            drop(file);
            Ok(())
        }
        // A pipe that is opened and closed has ended for its reader.
        Target::Stream(..) => Ok(()),
    }
}

/// Deletes the temporary files and folders that killed processes left in a folder, but none that is being written.
///
/// Errors are ignored, since what stays is harmless.
pub fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_temporary = name
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY_PREFIX));
        match entry.file_type() {
            Ok(kind) if is_temporary && kind.is_file() => remove_leftover(&entry.path()),
            Ok(kind) if is_temporary && kind.is_dir() => staging::remove_left_over(&entry.path()),
            _ => {}
        }
    }
}

/// Deletes a temporary file that is not in use.
fn remove_leftover(path: &Path) {
    if let Ok(file) = fs::File::open(path)
        && file.file().try_lock().is_ok()
    {
        // Deleted while locked, so that no other process can start to use it.
        let _ = fs::remove_file(path);
    }
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

/// Makes a folder with `fill`, which gets its path until it is whole: `to` appears complete or not at all. An empty folder is
/// replaced. Removes what killed processes left next to it.
///
/// # Errors
/// An error of `fill` or of the file system, or `to` is a folder that is not empty.
pub fn write_folder<T, E: From<io::Error>>(
    to: &Path,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let parent = parent(to);
    fs::create_dir_all(parent)?;
    remove_leftovers(parent);
    // Next to the target, so that the last step is a rename.
    let staging = Staging::create(parent)?;
    let root = staging.data();
    fs::create_dir(&root)?;
    let filled = fill(&root)?;
    sync_folder(&root)?;
    // Not all systems can rename onto an empty folder; a non-empty folder is not removed.
    let _ = std::fs::remove_dir(to);
    staging.keep(to)?;
    sync_folder(parent)?;
    Ok(filled)
}

/// The first of `path.1`, `path.2`, ... that does not exist: the new name for a file that is replaced.
pub fn free_path(path: &Path) -> PathBuf {
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

/// What an operation on a file or folder gave; `None` if there is no such file or folder.
///
/// # Errors
/// Any other error.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A path without `.`, and without `..` where a folder is before it, so that each file has one path; the file system is not asked.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        let last = plain.components().next_back();
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(last, Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The folder that contains `path`; `.` for a bare file name.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
