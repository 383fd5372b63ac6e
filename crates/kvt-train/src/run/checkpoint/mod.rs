//! Checkpoints as containers: folders of files that exist completely or not at all.
//!
//! ```text
//! checkpoints/
//!   step-00001234/      one checkpoint
//!     ...               the caller's files (weights, optimizer)
//!     state.json        the caller's small state
//!     manifest.json     format version; size and BLAKE3 of every other file; written last
//!   step-00001234-before-eval/   the same, made before the evaluation after that step; deleted once the other exists
//!   set-aside-step-00001200/     a checkpoint that was broken, or that a run resumed from an older one abandoned
//!   last, best          text files that hold a folder's name
//! ```
//!
//! A checkpoint is written to a hidden temporary folder, every file is fsynced, and only then is the folder renamed and the
//! pointer replaced; older checkpoints are deleted after that. If the machine dies at any instruction, the pointers still name a
//! complete checkpoint.

mod manifest;
mod name;
mod prune;
mod recover;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::manifest::{Manifest, is_file_name};
use self::name::Name;
pub use self::name::Stage;
use super::{RunDir, RunError};
use kvt_data::fs::{if_there, parent, sync_folder, write_atomic};
use kvt_data::regular;

const STATE: &str = "state.json";
const LAST: &str = "last";
const BEST: &str = "best";

/// How many newer checkpoints are tried in place of one that was deleted: a slow reader ends, too.
const NEWER: usize = 10;

/// The folder of a run's checkpoints. Only the process that holds the run's lock may call [`save`](Self::save) and
/// [`settle`](Self::settle).
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    /// Checked before each write.
    run: RunDir,
    /// How many of the latest checkpoints are kept.
    keep_last: usize,
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

impl<'a> From<&'a Path> for Which<'a> {
    /// `last`, `best`, or else a path; write `./last` for a folder with one of these names.
    fn from(path: &'a Path) -> Self {
        match path.to_str() {
            Some(LAST) => Self::Last,
            Some(BEST) => Self::Best,
            _ => Self::Path(path),
        }
    }
}

/// A complete checkpoint, every file of which has been verified.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    state: Vec<u8>,
    manifest: Manifest,
}

impl Checkpoints {
    /// The checkpoints of a run; their folder need not exist yet. Of those that are saved, the latest step is kept.
    pub fn new(run: &RunDir) -> Self {
        Self {
            folder: run.checkpoints(),
            run: run.clone(),
            keep_last: 1,
        }
    }

    /// These, of which those of `keep_last` of the latest steps are kept, of at least one.
    #[must_use]
    pub fn keeping(self, keep_last: usize) -> Self {
        Self {
            keep_last: keep_last.max(1),
            ..self
        }
    }

    /// Writes a checkpoint after `step` optimizer updates and makes it `last`, with `best` also the best; then deletes all others
    /// except `best` and those of the latest steps. Returns a warning for each that could not be deleted.
    ///
    /// `files` writes its files into the folder that it is given, and returns their plain names. `state` is stored as JSON. It must not
    /// contain non-finite numbers, since these could not be read back.
    ///
    /// # Errors
    /// The error of `files`, a failure of the file system, or [`RunError::Moved`]. Earlier checkpoints are then untouched.
    pub fn save<E: From<RunError>>(
        &self,
        step: u64,
        (stage, best): (Stage, bool),
        state: &impl Serialize,
        files: impl FnOnce(&Path) -> Result<Vec<String>, E>,
    ) -> Result<Vec<String>, E> {
        let name = self.free_name(Name::new(step, stage)).to_string();
        let temporary = self.temporary(&name);
        let written = self.write(&temporary, &name, files, state);
        let written = written.inspect_err(|_| {
            // On a full disk the incomplete checkpoint would block the next one, and in the place of a moved run it is another's; a
            // failure to delete it matters less.
            let _ = fs::remove_dir_all(&temporary);
        });
        let pointed = written.and_then(|()| {
            // The best first: if killed in between, the run resumes from this checkpoint, which is the newest complete one.
            if best {
                self.point(BEST, &name)?;
            }
            Ok(self.point(LAST, &name)?)
        });
        pointed.map_err(|error| self.run.cause(error))?;
        Ok(self.prune())
    }

    /// Loads a checkpoint after verifying all its files.
    ///
    /// If the checkpoint that `last` points to is missing or broken, the newest complete one is used, with a warning.
    ///
    /// # Errors
    /// [`RunError::NoCheckpoint`] if there is none at all, [`RunError::BrokenCheckpoint`] with the missing, truncated or altered
    /// file.
    pub fn load(&self, which: Which<'_>) -> Result<(Checkpoint, Option<String>), RunError> {
        match which {
            Which::Path(path) if path.is_file() => Err(self.foreign(path)),
            // A path that is not a folder was never a checkpoint: the name is wrong.
            Which::Path(path) if !path.is_dir() => Err(RunError::NoSuchCheckpoint {
                path: path.to_owned(),
                folder: self.folder.clone(),
                names: self.names()?.iter().map(ToString::to_string).collect(),
            }),
            Which::Path(path) => Checkpoint::load(path).map(|checkpoint| (checkpoint, None)),
            Which::Best => match self.pointed(BEST, Checkpoint::load)? {
                Some(best) => Ok((best, None)),
                None => Err(self.none(BEST)),
            },
            Which::Last => self.load_last(),
        }
    }

    /// The refusal of a path that leads to no checkpoint of this folder.
    fn foreign(&self, path: &Path) -> RunError {
        let (is_file, path, folder) = (path.is_file(), path.to_owned(), self.folder.clone());
        if is_file {
            RunError::FileAsCheckpoint { path, folder }
        } else {
            RunError::ForeignCheckpoint { path, folder }
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
        files: impl FnOnce(&Path) -> Result<Vec<String>, E>,
        state: &impl Serialize,
    ) -> Result<(), E> {
        let io = |error: io::Error| E::from(RunError::Io(error));
        self.run.check()?;
        if !self.folder.exists() {
            // Not the folder of the run too: if it is gone, it was moved.
            fs::create_dir(&self.folder).map_err(io)?;
            sync_folder(parent(&self.folder)).map_err(io)?;
        }
        // In a container every start may have the same pid, and so find the folder of its killed predecessor.
        if temporary.exists() {
            fs::remove_dir_all(temporary).map_err(io)?;
        }
        fs::create_dir(temporary).map_err(io)?;
        let mut names = files(temporary)?;
        write_json(&temporary.join(STATE), state).map_err(io)?;
        names.push(STATE.to_owned());
        Manifest::seal(temporary, &names).map_err(io)?;
        // It may have been begun just after the run was moved. What was begun before cannot be renamed by this path.
        self.run.check()?;
        fs::rename(temporary, self.folder.join(name)).map_err(io)?;
        sync_folder(&self.folder).map_err(io)
    }

    /// The first free name from this one on. A checkpoint is not touched until its replacement is complete.
    fn free_name(&self, mut name: Name) -> Name {
        while self.path(name).exists() {
            name = name.again();
        }
        name
    }

    fn path(&self, name: Name) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.folder
            .join(format!(".{name}.tmp-{}", std::process::id()))
    }

    fn point(&self, pointer: &str, name: &str) -> Result<(), RunError> {
        self.run.check()?;
        write_atomic(&self.folder.join(pointer), |file| writeln!(file, "{name}"))?;
        Ok(())
    }

    /// The name in a pointer file; `None` if there is no such file.
    fn pointer(&self, pointer: &str) -> Result<Option<String>, RunError> {
        let path = self.folder.join(pointer);
        let Some(text) = if_there(regular::read_to_string(&path))? else {
            return Ok(None);
        };
        let name = text.trim();
        if is_file_name(name) {
            Ok(Some(name.to_owned()))
        } else {
            Err(RunError::Malformed {
                path,
                line: 1,
                reason: format!("`{name}` is not the name of a checkpoint"),
            })
        }
    }

    /// The checkpoint that a pointer file names, by `load`; `None` if there is no such file. One that is deleted while it is loaded,
    /// because a run that is still being trained has a newer one, gives way to that.
    fn pointed(
        &self,
        pointer: &str,
        mut load: impl FnMut(&Path) -> Result<Checkpoint, RunError>,
    ) -> Result<Option<Checkpoint>, RunError> {
        let Some(mut name) = self.pointer(pointer)? else {
            return Ok(None);
        };
        let mut newer = NEWER;
        loop {
            let found = load(&self.folder.join(&name));
            if found.is_ok() || newer == 0 {
                return found.map(Some);
            }
            newer -= 1;
            match self.pointer(pointer)? {
                Some(next) if next != name => name = next,
                _ => return found.map(Some),
            }
        }
    }

    /// The names in the folder; none before the first checkpoint.
    fn entries(&self) -> Result<Vec<String>, RunError> {
        let mut names = Vec::new();
        for entry in if_there(fs::read_dir(&self.folder))?.into_iter().flatten() {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// The existing checkpoints, complete or not, newest first.
    fn names(&self) -> Result<Vec<Name>, RunError> {
        let entries = self.entries()?;
        let names = entries.iter().filter_map(|name| Name::parse(name));
        let mut names: Vec<Name> = names.collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }
}

impl Checkpoint {
    fn load(path: &Path) -> Result<Self, RunError> {
        Ok(Self {
            manifest: Manifest::verify(path, STATE)?,
            path: path.to_owned(),
            state: regular::read(&path.join(STATE))?,
        })
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its folder.
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether a file belongs to it.
    pub fn has(&self, name: &str) -> bool {
        self.manifest.lists(name)
    }

    /// Path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The state saved with it.
    ///
    /// # Errors
    /// [`RunError::BrokenCheckpoint`] if it is not of this type.
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

#[cfg(test)]
mod tests;
