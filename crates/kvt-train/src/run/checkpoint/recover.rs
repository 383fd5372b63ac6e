//! Chooses the checkpoint from which a run resumes, and moves conflicting ones out of the way.
//!
//! The choice changes nothing, so that a refused resume leaves the folder as it was. [`Checkpoints::settle`] then updates the
//! folder to match the choice.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::manifest::is_file_name;
use super::name::{Name, Stage};
use super::{BEST, Checkpoint, Checkpoints, LAST, Which};
use crate::run::RunError;
use kvt_data::fs::if_there;

/// Prefix of the names of checkpoints that were taken out of use.
const SET_ASIDE: &str = "set-aside-";

impl Checkpoints {
    /// Loads the checkpoint to resume from, with a warning if it is not the requested one. A bare name is one in this folder; it may
    /// have been set aside. The last one is the newest complete one, even if the process died before `last` pointed to it, or a user
    /// restored it.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`RunError::ForeignCheckpoint`] for a checkpoint of another folder.
    pub fn recover(&self, which: Which<'_>) -> Result<(Checkpoint, Option<String>), RunError> {
        match which {
            Which::Path(path) => Ok((Checkpoint::load(&self.own(path)?)?, None)),
            Which::Last => {
                let (checkpoint, warning) = self.load_last()?;
                let name = Name::parse(&checkpoint.name());
                let names = self.names()?.into_iter();
                let mut newer = names.filter(|other| Some(*other) > name);
                let newer = newer.find_map(|name| Checkpoint::load(&self.path(name)).ok());
                Ok(newer.map_or((checkpoint, warning), |newer| (newer, None)))
            }
            Which::Best => self.load(which),
        }
    }

    /// Whether the newest checkpoint was made before an evaluation: that may be in the log, but what it changed is not saved.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn end_before_evaluation(&self) -> Result<bool, RunError> {
        let newest = self.names()?.into_iter().next();
        Ok(newest.is_some_and(|name| name.stage == Stage::BeforeEval))
    }

    /// Makes `recovered` the last checkpoint. Newer ones are set aside: they are broken, or the run abandons them. `best` is
    /// `Some` if there was an evaluation, and holds the step of the best one, if known; the pointer `best` is set to its
    /// checkpoint. Returns whether that is unusable, although there should be one. `warnings` receives what was set aside or lost.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn settle(
        &self,
        recovered: &mut Checkpoint,
        best: Option<Option<u64>>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, RunError> {
        let name = self.readmit(recovered)?;
        let best_is_lost = self.settle_best(best, warnings)?;
        let text = name.to_string();
        if !matches!(self.pointer(LAST), Ok(Some(last)) if last == text) {
            self.point(LAST, &text)?;
        }
        for newer in self.names()?.into_iter().filter(|other| *other > name) {
            warnings.push(self.set_aside(newer)?);
        }
        warnings.extend(self.remove_leftovers());
        Ok(best_is_lost)
    }

    /// Makes `best` name the checkpoint of the best evaluation, if it is usable; returns whether it is not.
    fn settle_best(
        &self,
        best: Option<Option<u64>>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, RunError> {
        // The pointer comes first, since several checkpoints may have the same step.
        let pointed = self
            .pointer(BEST)
            .ok()
            .flatten()
            .as_deref()
            .and_then(Name::parse);
        let candidates = match best {
            None => Vec::new(),
            Some(None) => pointed.into_iter().collect(),
            Some(Some(step)) => {
                let of_step = |name: &Name| name.step == step && name.stage == Stage::Done;
                let others = self.names()?.into_iter().filter(of_step);
                pointed.filter(of_step).into_iter().chain(others).collect()
            }
        };
        for name in candidates {
            let path = self.path(name);
            match Checkpoint::load(&path) {
                Ok(_) if pointed == Some(name) => return Ok(false),
                Ok(_) => return self.point(BEST, &name.to_string()).map(|()| false),
                Err(_) if !path.exists() => {}
                Err(_) => warnings.push(self.set_aside(name)?),
            }
        }
        if_there(fs::remove_file(self.folder.join(BEST)))?;
        Ok(best.is_some())
    }

    /// The path of a checkpoint in this folder: a bare name, or a path that leads into it.
    fn own(&self, path: &Path) -> Result<PathBuf, RunError> {
        let foreign = || self.foreign(path);
        let name = path.file_name().ok_or_else(foreign)?;
        if !path.to_str().is_some_and(is_file_name) {
            let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
            if parent.is_none() || parent != self.folder.canonicalize().ok() {
                return Err(foreign());
            }
        }
        let path = self.folder.join(name);
        if path.is_dir() {
            Ok(path)
        } else {
            Err(foreign())
        }
    }

    /// Restores the name of a checkpoint that was set aside.
    fn readmit(&self, checkpoint: &mut Checkpoint) -> Result<Name, RunError> {
        let text = checkpoint.name();
        if let Some(name) = Name::parse(&text) {
            return Ok(name);
        }
        // `set-aside-<name>`, or `set-aside-<name>.2` if that name was taken.
        let name = text
            .strip_prefix(SET_ASIDE)
            .and_then(|text| Name::parse(text.split_once('.').map_or(text, |(name, _)| name)));
        let Some(name) = name else {
            return Err(self.foreign(&checkpoint.path));
        };
        let name = self.free_name(name);
        let path = self.path(name);
        fs::rename(&checkpoint.path, &path)?;
        checkpoint.path = path;
        Ok(name)
    }

    /// Takes a checkpoint out of use without deleting it.
    pub(super) fn set_aside(&self, name: Name) -> Result<String, RunError> {
        let from = self.path(name);
        let base = format!("{SET_ASIDE}{name}");
        let mut to = self.folder.join(&base);
        let mut attempt = 1;
        while to.exists() {
            attempt += 1;
            to = self.folder.join(format!("{base}.{attempt}"));
        }
        fs::rename(&from, &to)?;
        let (from, to) = (from.display(), to.display());
        Ok(format!("`{from}` is now `{to}`, and no longer used"))
    }

    pub(super) fn load_last(&self) -> Result<(Checkpoint, Option<String>), RunError> {
        let error = match self.pointed(LAST, Checkpoint::load) {
            Ok(Some(checkpoint)) => return Ok((checkpoint, None)),
            Ok(None) => self.none(LAST),
            Err(error) => error,
        };
        let unusable = |reason: String| RunError::NoUsableCheckpoint {
            path: self.folder.clone(),
            reason,
        };
        let names = self.names()?;
        let mut aside = self.entries()?;
        aside.retain(|name| name.starts_with(SET_ASIDE));
        if names.is_empty() && !aside.is_empty() {
            aside.sort();
            return Err(unusable(format!(
                "what is left was set aside: name one of it with `--resume-from`, as `{}`",
                aside.join("`, `")
            )));
        }
        for &name in &names {
            if let Ok(checkpoint) = Checkpoint::load(&self.path(name)) {
                let warning = format!("{error}; falling back to `{}`", checkpoint.path.display());
                return Ok((checkpoint, Some(warning)));
            }
        }
        match error {
            RunError::NoCheckpoint { .. } if names.is_empty() => Err(error),
            // Checkpoints existed once, so this differs from a run that never saved.
            _ => Err(unusable(error.to_string())),
        }
    }
}
