//! `manifest.json`: the files of a complete checkpoint.

use std::io;
use std::path::{Component, Path};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::run::RunError;
use kvt_data::fs::{if_there, write_atomic};
use kvt_data::regular;

const FORMAT: u32 = 1;
pub(super) const MANIFEST: &str = "manifest.json";

/// The content of `manifest.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileEntry {
    name: String,
    size: u64,
    blake3: String,
}

impl Manifest {
    /// Syncs the files `names` of `folder` to disk and then writes its manifest.
    pub(super) fn seal(folder: &Path, names: &[String]) -> io::Result<()> {
        let manifest = Self {
            format: FORMAT,
            files: names
                .iter()
                .map(|name| FileEntry::seal(folder, name))
                .collect::<io::Result<_>>()?,
        };
        write_atomic(&folder.join(MANIFEST), |file| {
            serde_json::to_writer_pretty(file, &manifest).map_err(Into::into)
        })
    }

    /// Checks that `folder` has every file its manifest lists, unaltered, and that `required` is one of them.
    pub(super) fn verify(folder: &Path, required: &str) -> Result<Self, RunError> {
        let broken = |reason: String| RunError::broken(folder, reason);
        let text = if_there(regular::read(&folder.join(MANIFEST)))?;
        let text = text.ok_or_else(|| broken(format!("`{MANIFEST}` is missing")))?;
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| broken(format!("`{MANIFEST}` does not parse: {error}")))?;
        if manifest.format != FORMAT {
            return Err(broken(format!(
                "its format is {}, this program reads {FORMAT}: use the version that wrote it",
                manifest.format
            )));
        }
        if !manifest.lists(required) {
            return Err(broken(format!("`{MANIFEST}` does not list `{required}`")));
        }
        manifest
            .files
            .iter()
            .try_for_each(|entry| entry.verify(folder))?;
        Ok(manifest)
    }

    /// Whether a file is part of the checkpoint.
    pub(super) fn lists(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }
}

impl FileEntry {
    /// Syncs the file to disk, and records its size and hash.
    fn seal(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        fs::OpenOptions::new().write(true).open(&path)?.sync_all()?;
        let (size, blake3) = measure(&path)?;
        Ok(Self {
            name: name.to_owned(),
            size,
            blake3,
        })
    }

    fn verify(&self, folder: &Path) -> Result<(), RunError> {
        let name = &self.name;
        let broken = |how: &str| Err(RunError::broken(folder, format!("`{name}` {how}")));
        if !is_file_name(name) {
            return broken("is not a file name");
        }
        match if_there(measure(&folder.join(name)))? {
            Some((size, _)) if size != self.size => {
                broken(&format!("has {size} bytes instead of {}", self.size))
            }
            Some((_, blake3)) if blake3 != self.blake3 => broken("was altered"),
            Some(_) => Ok(()),
            None => broken("is missing"),
        }
    }
}

/// Size and BLAKE3 (hexadecimal) of a file.
fn measure(path: &Path) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let file = regular::open(path).map_err(|error| regular::named(path, &error))?;
    hasher.update_reader(file)?;
    Ok((hasher.count(), hasher.finalize().to_hex().to_string()))
}

/// Whether `name` stays inside the folder it is joined to.
pub(super) fn is_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(_)), None)
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_manifest_that_lacks_what_is_required_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        Manifest::seal(folder.path(), &["a".to_owned()]).unwrap();
        assert!(Manifest::verify(folder.path(), "a").unwrap().lists("a"));
        let error = Manifest::verify(folder.path(), "b").unwrap_err();
        assert!(error.to_string().contains("does not list `b`"), "{error}");
    }
}
