//! Checkpoints as containers: folders of files that are there whole or not at all.
//!
//! ```text
//! checkpoints/
//!   step-00001234/      one checkpoint
//!     ...               the caller's files (weights, optimizer)
//!     state.json        the caller's small state
//!     manifest.json     format version; size and BLAKE3 of every other file; written last
//!   last, best          text files that hold a folder's name
//! ```
//!
//! A checkpoint grows in a hidden temporary folder, every file is fsynced, and only then is the folder renamed and
//! the pointer replaced; the previous checkpoint is deleted after that. Whatever instruction the machine dies at,
//! the pointers name a complete checkpoint.

mod manifest;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::manifest::{Manifest, is_file_name};
use super::{RunError, Warning};
use crate::fs::{TEMPORARY_PREFIX, sync_folder, write_atomic};

const STATE: &str = "state.json";
const LAST: &str = "last";
const BEST: &str = "best";
const PREFIX: &str = "step-";
/// Folders that are being written or deleted begin so.
const HIDDEN: &str = ".step-";

/// A file of a checkpoint: its plain name, and the function that writes it at the path it is given.
pub type FileWriter<'a, E> = (&'a str, &'a mut dyn FnMut(&Path) -> Result<(), E>);

/// The folder of a run's checkpoints. Only the process that holds the run's lock may [`save`](Self::save).
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

/// Which checkpoint to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The latest.
    Last,
    /// The one with the best validation result.
    Best,
    /// The one in this folder.
    Path(&'a Path),
}

impl<'a> From<&'a str> for Which<'a> {
    /// `last`, `best`, or else a path; a folder of one of these names is `./last`.
    fn from(text: &'a str) -> Self {
        match text {
            LAST => Self::Last,
            BEST => Self::Best,
            path => Self::Path(Path::new(path)),
        }
    }
}

/// A checkpoint that was just written.
#[derive(Debug)]
pub struct Saved {
    /// Its folder.
    pub path: PathBuf,
    /// Old checkpoints that could not be deleted.
    pub warnings: Vec<Warning>,
}

/// A complete checkpoint, every file of which has been verified.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    state: Vec<u8>,
    manifest: Manifest,
}

impl Checkpoints {
    /// The checkpoints in `folder`, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Writes a checkpoint after `step` optimizer updates and makes it `last`, with `best` also the best; then
    /// deletes all others but `last` and `best`.
    ///
    /// Each of `files` is a plain file name and the function that writes that file at the path it is given. `state`
    /// is stored as JSON, where a non-finite number would come back as an error: keep those out of it.
    ///
    /// # Errors
    /// What the functions return, or a failure of the file system. The earlier checkpoints are then untouched.
    pub fn save<E: From<RunError>>(
        &self,
        step: u64,
        files: &mut [FileWriter<'_, E>],
        state: &impl Serialize,
        best: bool,
    ) -> Result<Saved, E> {
        let name = self.free_name(step);
        let temporary = self.temporary(&name);
        let written = self.write(&temporary, &name, files, state);
        if written.is_err() {
            // On a full disk the half checkpoint would be in the way of the next; its own failure matters less.
            let _ = fs::remove_dir_all(&temporary);
        }
        written?;
        // The best first: killed in between, the run repeats its way to it instead of losing it.
        if best {
            self.point(BEST, &name)?;
        }
        self.point(LAST, &name)?;
        Ok(Saved {
            path: self.folder.join(&name),
            warnings: self.prune(),
        })
    }

    /// Loads a checkpoint after verifying every file of it.
    ///
    /// When the checkpoint that `last` points to is missing or broken, the newest complete one is taken, and the
    /// warning says so.
    ///
    /// # Errors
    /// [`RunError::NoCheckpoint`] when there is none at all, [`RunError::BrokenCheckpoint`] naming the missing,
    /// truncated or altered file.
    pub fn load(&self, which: Which<'_>) -> Result<(Checkpoint, Option<Warning>), RunError> {
        match which {
            Which::Path(path) => Checkpoint::load(path).map(|checkpoint| (checkpoint, None)),
            Which::Best => match self.pointer(BEST)? {
                Some(name) => Checkpoint::load(&self.folder.join(name)).map(|best| (best, None)),
                None => Err(self.none(BEST)),
            },
            Which::Last => self.load_last(),
        }
    }

    fn load_last(&self) -> Result<(Checkpoint, Option<Warning>), RunError> {
        let pointed = self.pointer(LAST);
        let error = match pointed {
            Ok(Some(name)) => match Checkpoint::load(&self.folder.join(name)) {
                Ok(checkpoint) => return Ok((checkpoint, None)),
                Err(error) => error,
            },
            Ok(None) => self.none(LAST),
            Err(error) => error,
        };
        let mut names = self.names()?;
        let any = !names.is_empty();
        names.sort_by_key(|name| std::cmp::Reverse(age(name)));
        for name in names {
            if let Ok(checkpoint) = Checkpoint::load(&self.folder.join(name)) {
                let warning = Warning::FellBack {
                    reason: error.to_string(),
                    used: checkpoint.path.clone(),
                };
                return Ok((checkpoint, Some(warning)));
            }
        }
        match error {
            // There are some, only none that can be used: not the same as a run that never saved.
            RunError::NoCheckpoint { .. } if any => Err(RunError::broken(
                &self.folder,
                "every checkpoint in it is incomplete or altered",
            )),
            error => Err(error),
        }
    }

    fn none(&self, which: &'static str) -> RunError {
        RunError::NoCheckpoint {
            which,
            path: self.folder.clone(),
        }
    }

    fn write<E: From<RunError>>(
        &self,
        temporary: &Path,
        name: &str,
        files: &mut [FileWriter<'_, E>],
        state: &impl Serialize,
    ) -> Result<(), E> {
        let io = |error: io::Error| E::from(RunError::Io(error));
        fs::create_dir_all(&self.folder).map_err(io)?;
        // In a container every start may have the same pid, and so find its killed predecessor's folder.
        if temporary.exists() {
            fs::remove_dir_all(temporary).map_err(io)?;
        }
        fs::create_dir(temporary).map_err(io)?;
        for (name, write) in &mut *files {
            write(&temporary.join(*name))?;
        }
        write_json(&temporary.join(STATE), state).map_err(io)?;
        let names = files.iter().map(|(name, _)| *name).chain([STATE]);
        Manifest::seal(temporary, names).map_err(io)?;
        fs::rename(temporary, self.folder.join(name)).map_err(io)?;
        sync_folder(&self.folder).map_err(io)
    }

    /// A name no checkpoint has. A step is saved twice when a run was resumed from before it; the first one is not
    /// touched until the second is complete.
    fn free_name(&self, step: u64) -> String {
        let name = format!("{PREFIX}{step:08}");
        let mut free = name.clone();
        let mut attempt = 1;
        while self.folder.join(&free).exists() {
            attempt += 1;
            free = format!("{name}-{attempt}");
        }
        free
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.folder
            .join(format!(".{name}.tmp-{}", std::process::id()))
    }

    fn point(&self, pointer: &str, name: &str) -> Result<(), RunError> {
        write_atomic(&self.folder.join(pointer), |file| writeln!(file, "{name}"))?;
        Ok(())
    }

    /// The name a pointer file holds; `None` when there is no such file.
    fn pointer(&self, pointer: &str) -> Result<Option<String>, RunError> {
        let path = self.folder.join(pointer);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let name = text.trim();
        if is_file_name(name) {
            Ok(Some(name.to_owned()))
        } else {
            Err(RunError::Malformed {
                path,
                line: 1,
                reason: format!("`{name}` is no name of a checkpoint"),
            })
        }
    }

    /// Names of the folders under their final names, complete or not.
    fn names(&self) -> Result<Vec<String>, RunError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            if let Ok(name) = entry?.file_name().into_string()
                && name.starts_with(PREFIX)
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Deletes every checkpoint but `last` and `best`, and the left-overs of a killed process.
    fn prune(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let failed = |path: &Path, error: &dyn ToString| Warning::NotDeleted {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let kept = match (self.pointer(LAST), self.pointer(BEST)) {
            (Ok(last), Ok(best)) => last.into_iter().chain(best).collect::<HashSet<_>>(),
            // Not knowing what to keep, keep everything.
            (Err(error), _) | (_, Err(error)) => return vec![failed(&self.folder, &error)],
        };
        match self.names() {
            Ok(names) => {
                for name in names.iter().filter(|name| !kept.contains(*name)) {
                    let (path, hidden) = (self.folder.join(name), self.temporary(name));
                    // Hidden first: a half-deleted folder must not look like a checkpoint.
                    if let Err(error) = fs::rename(&path, &hidden) {
                        warnings.push(failed(&path, &error));
                    }
                }
            }
            Err(error) => warnings.push(failed(&self.folder, &error)),
        }
        match fs::read_dir(&self.folder) {
            Ok(entries) => {
                for path in entries.flatten().map(|entry| entry.path()) {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let removed = if name.starts_with(HIDDEN) {
                        fs::remove_dir_all(&path)
                    } else if name.starts_with(TEMPORARY_PREFIX) {
                        fs::remove_file(&path)
                    } else {
                        Ok(())
                    };
                    if let Err(error) = removed {
                        warnings.push(failed(&path, &error));
                    }
                }
            }
            Err(error) => warnings.push(failed(&self.folder, &error)),
        }
        warnings
    }
}

impl Checkpoint {
    fn load(path: &Path) -> Result<Self, RunError> {
        Ok(Self {
            manifest: Manifest::verify(path, STATE)?,
            path: path.to_owned(),
            state: fs::read(path.join(STATE))?,
        })
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file belongs to it.
    pub fn has(&self, name: &str) -> bool {
        self.manifest.lists(name)
    }

    /// Path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The state that was saved with it.
    ///
    /// # Errors
    /// [`RunError::BrokenCheckpoint`] when it is not of this type.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, RunError> {
        serde_json::from_slice(&self.state).map_err(|error| {
            RunError::broken(&self.path, format!("`{STATE}` does not parse: {error}"))
        })
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    fs::write(path, bytes)
}

/// Step and attempt of a checkpoint's name; what is not of that form counts as oldest.
fn age(name: &str) -> Option<(u64, u64)> {
    let rest = name.strip_prefix(PREFIX)?;
    match rest.split_once('-') {
        Some((step, attempt)) => Some((step.parse().ok()?, attempt.parse().ok()?)),
        None => Some((rest.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests;
