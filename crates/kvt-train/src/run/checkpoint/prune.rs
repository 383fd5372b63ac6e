//! Deletes checkpoints that are no longer needed.

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::path::Path;

use fs_err as fs;

use super::name::Name;
use super::{BEST, Checkpoints, LAST};
use crate::run::RunError;
use kvt_data::fs::remove_leftovers;

/// Prefix of folders that are being written or deleted.
const HIDDEN: &str = ".step-";

impl Checkpoints {
    /// Deletes every checkpoint except `last`, `best` and the newest of each of the latest steps, and also the remains of a
    /// killed process.
    pub(super) fn prune(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        // In the place of a run that was just moved there may be another, whose checkpoints are not ours to delete.
        if self.run.check().is_err() {
            return warnings;
        }
        if let Err(error) = self.hide_old(&mut warnings) {
            warnings.push(not_deleted(&self.folder, &error));
        }
        warnings.extend(self.remove_leftovers());
        warnings
    }

    fn hide_old(&self, warnings: &mut Vec<String>) -> Result<(), RunError> {
        // With an unreadable pointer it is unclear what to keep, so everything is kept.
        let pointed: HashSet<String> = [self.pointer(LAST)?, self.pointer(BEST)?]
            .into_iter()
            .flatten()
            .collect();
        let mut steps = Vec::new();
        for name in self.names()? {
            let newest_of_step = !steps.contains(&name.step);
            if newest_of_step {
                steps.push(name.step);
            }
            let kept = newest_of_step && steps.len() <= self.keep_last;
            if !kept
                && !pointed.contains(&name.to_string())
                && let Err(error) = self.hide(name)
            {
                warnings.push(not_deleted(&self.path(name), &error));
            }
        }
        Ok(())
    }

    /// The first half of a deletion, since a half-deleted folder must not look like a checkpoint.
    pub(super) fn hide(&self, name: Name) -> io::Result<()> {
        let name = name.to_string();
        fs::rename(self.folder.join(&name), self.temporary(&name))
    }

    /// Deletes what a killed process was writing or deleting.
    pub(super) fn remove_leftovers(&self) -> Vec<String> {
        remove_leftovers(&self.folder);
        let names = match self.entries() {
            Ok(names) => names,
            Err(error) => return vec![not_deleted(&self.folder, &error)],
        };
        let hidden = names.iter().filter(|name| name.starts_with(HIDDEN));
        let failed = hidden.filter_map(|name| {
            let path = self.folder.join(name);
            Some(not_deleted(&path, &fs::remove_dir_all(&path).err()?))
        });
        failed.collect()
    }
}

fn not_deleted(path: &Path, error: &dyn Display) -> String {
    format!("could not delete `{}`: {error}", path.display())
}
