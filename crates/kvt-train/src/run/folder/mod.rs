//! The folder of one run: its file names, and the lock that keeps a second writer out.

mod lock;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;

use self::lock::{LOCK, Lock};
use super::RunError;
use kvt_data::fs::{TEMPORARY_PREFIX, free_path, remove_leftovers, write_atomic};
use kvt_data::regular;
use kvt_data::text::{LARGEST_LIST, read_text};

const ENVIRONMENT: &str = "environment.json";
const CLASSES: &str = "classes.txt";
const CHECKPOINTS: &str = "checkpoints";

/// A run's folder. From [`RunDir::create`], only this process may write it until all copies are dropped; from [`RunDir::open`], it
/// is read only.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Of a folder that may be written.
    lock: Option<Arc<Lock>>,
}

impl RunDir {
    /// Opens `path` for writing: a new run, or with `resume` an existing one.
    ///
    /// A folder holds a run once it contains `config.toml`, so the caller writes that file last; a start that died before is not
    /// a run and does not block the next one. Nothing in a folder is changed before it is known to be a run's, and locked.
    ///
    /// # Errors
    /// [`RunError::Exists`] for an existing run without `resume`, [`RunError::NotARun`] if there is nothing to resume,
    /// [`RunError::ConfigLost`] for a run without its configuration, [`RunError::Foreign`] for a folder with other files,
    /// [`RunError::Locked`] while another process writes it.
    pub fn create(path: &Path, resume: bool) -> Result<Self, RunError> {
        if resume && !holds_run(path) {
            return Err(no_run(path));
        }
        let is_ours = if holds_run(path) {
            // A `config.toml` may as well be a user's own.
            holds_record(path)
        } else {
            !path.exists() || is_free(path)?
        };
        if !is_ours {
            return Err(RunError::Foreign(path.to_owned()));
        }
        std::fs::create_dir_all(path).map_err(|error| RunError::NotMade {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let lock = Lock::take(path, std::fs::File::try_lock)?;
        if !resume && holds_run(path) {
            return Err(RunError::Exists(path.to_owned()));
        }
        remove_leftovers(path);
        Ok(Self {
            path: path.to_owned(),
            lock: Some(Arc::new(lock)),
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
        Ok(Self::of_another(path))
    }

    /// The folder that another process of the job writes; it need not exist here.
    pub(crate) fn of_another(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            lock: None,
        }
    }

    /// Checks that the path still leads to the folder that is locked: it may have been moved, and another run may be in its place.
    /// To be called before each write.
    ///
    /// # Errors
    /// [`RunError::Moved`] if it does not, [`RunError::Locked`] if another process has taken a lock that the system does not guard.
    pub fn check(&self) -> Result<(), RunError> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check())
    }

    /// The error of a write into the folder, or [`RunError::Moved`] or [`RunError::Locked`] if that is its cause: the folder may be moved
    /// or taken at any time after the [`check`](Self::check) before the write.
    pub(crate) fn cause<E: From<RunError>>(&self, error: E) -> E {
        match self.check() {
            Err(cause @ (RunError::Moved(_) | RunError::Locked { .. })) => E::from(cause),
            _ => error,
        }
    }

    /// A warning if the system does not guard the lock.
    pub fn warning(&self) -> Option<String> {
        self.lock.as_ref()?.warning()
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

    /// Keeps a copy of the log, if there is one, before a part of it or all of it is cut off. Returns its path.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn copy_log(&self) -> Result<PathBuf, RunError> {
        let log = self.log();
        let kept = free_path(&log);
        if log.exists() {
            let mut from = regular::open(&log).map_err(|error| regular::named(&log, &error))?;
            write_atomic(&kept, |to| std::io::copy(&mut from, to).map(|_| ()))?;
        }
        Ok(kept)
    }

    /// Writes `classes.txt`.
    ///
    /// # Errors
    /// [`RunError::ClassName`] for a name with a line break; failures of the file system.
    pub fn write_classes(&self, classes: &[String]) -> Result<(), RunError> {
        if let Some(name) = classes.iter().find(|name| name.contains(['\n', '\r'])) {
            return Err(RunError::ClassName(name.clone()));
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
        let text = read_text(&self.classes(), LARGEST_LIST)?;
        Ok(text.lines().map(str::to_owned).collect())
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
    if path.join(CHECKPOINTS).is_dir() {
        RunError::ConfigLost(path)
    } else {
        RunError::NotARun(path)
    }
}

/// Whether a folder has what kvt writes beside the configuration of a run, before it or soon after.
fn holds_record(path: &Path) -> bool {
    let mut names = [LOCK, ENVIRONMENT, CHECKPOINTS].iter();
    names.any(|name| path.join(name).exists())
}

/// Whether the folder is empty except for the remains of a start that died early. Such a start begins with the lock file: without
/// it, files with the names of ours are a user's.
fn is_free(path: &Path) -> Result<bool, RunError> {
    let is_started = lock::is_ours(&path.join(LOCK));
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        let ours = is_started && [LOCK, ENVIRONMENT, CLASSES].contains(&name);
        if !ours && !name.starts_with(TEMPORARY_PREFIX) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
