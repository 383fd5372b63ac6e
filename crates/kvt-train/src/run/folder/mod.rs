//! The folder of one run: its file names, and the lock that keeps a second writer out.

use std::ffi::OsStr;
use std::fs::TryLockError;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::RunError;
use crate::fs::{TEMPORARY_PREFIX, free_path, remove_leftovers, write_atomic};

const LOCK: &str = "run.lock";
const ENVIRONMENT: &str = "environment.json";
const CLASSES: &str = "classes.txt";
const CHECKPOINTS: &str = "checkpoints";

/// A run's folder. From [`RunDir::create`], only this process may write it until dropped; from [`RunDir::open`], it is read only.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Locked while they are open; the system releases them when the process dies.
    _locks: Vec<fs::File>,
}

impl RunDir {
    /// Opens `path` for writing: a new run, or with `resume` an existing one.
    ///
    /// A folder holds a run once it contains `config.toml`, so the caller writes that file last; a start that died before is not
    /// a run and does not block the next one.
    ///
    /// # Errors
    /// [`RunError::Exists`] for an existing run without `resume`, [`RunError::NotARun`] if there is nothing to resume,
    /// [`RunError::ConfigLost`] for a run without its configuration, [`RunError::Foreign`] for a folder with other files,
    /// [`RunError::Locked`] while another process writes it.
    pub fn create(path: &Path, resume: bool) -> Result<Self, RunError> {
        if resume && !holds_run(path) {
            return Err(no_run(path));
        }
        if !holds_run(path) && path.exists() && !is_free(path)? {
            return Err(RunError::Foreign {
                path: path.to_owned(),
            });
        }
        std::fs::create_dir_all(path).map_err(|error| RunError::NotMade {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let locks = lock(path)?;
        if !resume && holds_run(path) {
            return Err(RunError::Exists {
                path: path.to_owned(),
            });
        }
        remove_leftovers(path);
        Ok(Self {
            path: path.to_owned(),
            _locks: locks,
        })
    }

    /// Opens a run to read it, whether it is finished or still being written.
    ///
    /// # Errors
    /// [`RunError::NotARun`] if `path` has no `config.toml`, [`RunError::ConfigLost`] if it must have had one.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if !holds_run(path) {
            return Err(no_run(path));
        }
        Ok(Self {
            path: path.to_owned(),
            _locks: Vec::new(),
        })
    }

    /// The folder that another process of the job writes; it need not exist here.
    pub(crate) fn of_another(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            _locks: Vec::new(),
        }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved configuration, TOML.
    pub fn config(&self) -> PathBuf {
        config(&self.path)
    }

    /// The environment of the run's starts, JSON.
    pub fn environment(&self) -> PathBuf {
        self.path.join(ENVIRONMENT)
    }

    /// Class names in label order, one per line.
    pub fn classes(&self) -> PathBuf {
        self.path.join(CLASSES)
    }

    /// The log, one JSON object per line.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.jsonl")
    }

    /// One row per finished epoch.
    pub fn epochs_csv(&self) -> PathBuf {
        self.path.join("epochs.csv")
    }

    /// One row per layer and analysis; exists only with `analysis.every`.
    pub fn layers_csv(&self) -> PathBuf {
        self.path.join("layers.csv")
    }

    /// The folder of TensorBoard event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join("tensorboard")
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Renames the log, so that a run that starts over does not overwrite it; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_log_aside(&self) -> Result<Option<PathBuf>, RunError> {
        let log = self.log();
        if !log.exists() {
            return Ok(None);
        }
        let kept = free_path(&log);
        fs::rename(log, &kept)?;
        Ok(Some(kept))
    }

    /// Keeps a copy of the log before a part of it is cut off.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn copy_log(&self) -> Result<(), RunError> {
        let log = self.log();
        if log.exists() {
            let mut from = fs::File::open(&log)?;
            write_atomic(&free_path(&log), |to| {
                std::io::copy(&mut from, to).map(|_| ())
            })?;
        }
        Ok(())
    }

    /// Writes `classes.txt`.
    ///
    /// # Errors
    /// [`RunError::ClassName`] for a name with a line break; failures of the file system.
    pub fn write_classes(&self, classes: &[String]) -> Result<(), RunError> {
        if let Some(name) = classes.iter().find(|name| name.contains(['\n', '\r'])) {
            return Err(RunError::ClassName { name: name.clone() });
        }
        write_atomic(&self.classes(), |file| {
            classes.iter().try_for_each(|name| writeln!(file, "{name}"))
        })?;
        Ok(())
    }

    /// Reads `classes.txt`.
    ///
    /// # Errors
    /// If the file is missing or unreadable.
    pub fn read_classes(&self) -> Result<Vec<String>, RunError> {
        Ok(fs::read_to_string(self.classes())?
            .lines()
            .map(str::to_owned)
            .collect())
    }
}

fn config(run: &Path) -> PathBuf {
    run.join("config.toml")
}

fn holds_run(path: &Path) -> bool {
    config(path).is_file()
}

/// The error for a folder without a run: there never was one, or its configuration is gone.
fn no_run(path: &Path) -> RunError {
    let path = path.to_owned();
    match path.join(CHECKPOINTS).is_dir() {
        true => RunError::ConfigLost { path },
        false => RunError::NotARun { path },
    }
}

/// Whether the folder is empty except for the remains of a start that died early.
fn is_free(path: &Path) -> Result<bool, RunError> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let ours = [LOCK, ENVIRONMENT, CLASSES]
            .map(OsStr::new)
            .contains(&name.as_os_str())
            || name
                .to_str()
                .is_some_and(|name| name.starts_with(TEMPORARY_PREFIX));
        if !ours {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Locks the folder, and a file in it that names the holder.
///
/// The folder itself is locked because the file can be deleted. The file is locked, too, because not every system or network file
/// system can lock a folder.
fn lock(run: &Path) -> Result<Vec<fs::File>, RunError> {
    let mut locks = Vec::new();
    if cfg!(unix) {
        let folder = fs::File::open(run)?;
        match folder.file().try_lock() {
            Ok(()) => locks.push(folder),
            Err(TryLockError::WouldBlock) => return Err(locked(run)),
            Err(TryLockError::Error(_)) => {}
        }
    }
    // Not truncated on opening: until we have the lock, the content is the holder's.
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(run.join(LOCK))?;
    match file.file().try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked(run)),
        Err(TryLockError::Error(error)) => {
            return Err(RunError::Io(std::io::Error::new(
                error.kind(),
                format!("could not lock `{}`: {error}", file.path().display()),
            )));
        }
    }
    let host = sysinfo::System::host_name().unwrap_or_else(|| "an unknown host".to_owned());
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {} on `{host}`", std::process::id())?;
    locks.push(file);
    Ok(locks)
}

/// Some systems do not let others read a locked file, and it may be gone: then the holder is not named.
fn locked(run: &Path) -> RunError {
    let holder = fs::read_to_string(run.join(LOCK)).unwrap_or_default();
    RunError::Locked {
        path: run.to_owned(),
        holder: match holder.trim() {
            "" => "another process".to_owned(),
            holder => holder.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
