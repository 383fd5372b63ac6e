//! The folder of one run: its files' names, and the lock that keeps a second writer out.

use std::ffi::OsStr;
use std::fs::TryLockError;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::RunError;
use crate::fs::{TEMPORARY_PREFIX, write_atomic};

const LOCK: &str = "run.lock";
const ENVIRONMENT: &str = "environment.json";
const CLASSES: &str = "classes.txt";

/// A run's folder. Made by [`RunDir::create`] it is this process's alone until dropped; by [`RunDir::open`], to read.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Locked as long as it is open; the system lets go of it when the process dies.
    _lock: Option<fs::File>,
}

impl RunDir {
    /// Takes `path` for writing: a new run, or with `resume` one that is there.
    ///
    /// A folder holds a run once `config.toml` is in it, so the caller writes that file last; a start that died
    /// before is no run and does not stand in the way of the next.
    ///
    /// # Errors
    /// [`RunError::Exists`] for a run that is not to be resumed, [`RunError::NotARun`] when there is nothing to
    /// resume, [`RunError::Foreign`] for a folder with other files, [`RunError::Locked`] while another process
    /// writes it.
    pub fn create(path: &Path, resume: bool) -> Result<Self, RunError> {
        if resume && !holds_run(path) {
            return Err(RunError::NotARun {
                path: path.to_owned(),
            });
        }
        if !holds_run(path) && path.exists() && !is_free(path)? {
            return Err(RunError::Foreign {
                path: path.to_owned(),
            });
        }
        fs::create_dir_all(path)?;
        let lock = lock(path)?;
        if !resume && holds_run(path) {
            return Err(RunError::Exists {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: Some(lock),
        })
    }

    /// Opens a run to read it, whether it is finished or still being written.
    ///
    /// # Errors
    /// [`RunError::NotARun`] when `path` has no `config.toml`.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if !holds_run(path) {
            return Err(RunError::NotARun {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: None,
        })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved configuration, TOML.
    pub fn config(&self) -> PathBuf {
        config(&self.path)
    }

    /// Where and with what the run was started, JSON.
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

    /// The folder of TensorBoard event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join("tensorboard")
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
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
    /// When the file is missing or unreadable.
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

/// Whether nothing but the remains of a start that died early is in the folder.
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

fn lock(run: &Path) -> Result<fs::File, RunError> {
    let path = run.join(LOCK);
    // Not truncated on opening: until the lock is ours, the content is the holder's.
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    match file.file().try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Some systems do not let others read a locked file: then the holder stays unnamed.
            let read = file.read_to_string(&mut holder);
            return Err(RunError::Locked {
                path: run.to_owned(),
                holder: match holder.trim() {
                    holder if read.is_ok() && !holder.is_empty() => holder.to_owned(),
                    _ => "another process".to_owned(),
                },
            });
        }
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
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn make(path: &Path) -> RunDir {
        let run = RunDir::create(path, false).unwrap();
        fs::write(run.config(), "").unwrap();
        run
    }

    #[test]
    fn a_second_writer_learns_who_holds_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nested/run");
        let first = make(&path);
        for resume in [false, true] {
            let error = RunDir::create(&path, resume).unwrap_err();
            assert!(matches!(error, RunError::Locked { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains(&format!("process {} on `", std::process::id())),
                "{text}"
            );
        }
        // Reading is always possible.
        RunDir::open(&path).unwrap();
        drop(first);
        RunDir::create(&path, true).unwrap();
    }

    #[test]
    fn an_existing_run_is_refused_unless_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        drop(make(&path));
        let error = RunDir::create(&path, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "run `{}` exists: use `--resume` or another `run.dir`",
                path.display()
            )
        );
        RunDir::create(&path, true).unwrap();
    }

    #[test]
    fn a_start_that_died_before_its_config_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        drop(RunDir::create(folder.path(), false).unwrap());
        fs::write(
            folder.path().join(format!("{TEMPORARY_PREFIX}a1b2")),
            "half",
        )
        .unwrap();
        assert!(matches!(
            RunDir::create(folder.path(), true),
            Err(RunError::NotARun { .. })
        ));
        assert!(matches!(
            RunDir::open(folder.path()),
            Err(RunError::NotARun { .. })
        ));
        RunDir::create(folder.path(), false).unwrap();
    }

    #[test]
    fn a_folder_of_other_files_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(
            RunDir::create(folder.path(), false),
            Err(RunError::Foreign { .. })
        ));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn classes_come_back_and_line_breaks_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), false).unwrap();
        let classes = vec!["b".to_owned(), " spaced name ".to_owned(), "ä".to_owned()];
        run.write_classes(&classes).unwrap();
        assert_eq!(run.read_classes().unwrap(), classes);
        let error = run.write_classes(&["a\nb".to_owned()]).unwrap_err();
        assert!(error.to_string().contains(r#""a\nb""#), "{error}");
        assert_eq!(run.read_classes().unwrap(), classes);
    }
}
