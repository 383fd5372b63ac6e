//! Small data sets of photos, by name: downloaded, checked, and unpacked as an image folder.
//!
//! The folder appears complete or not at all. Its archive lies beside it until then: an interrupted download continues, and an archive
//! that a user has put there is not downloaded.

mod archive;
mod cifar;
mod flowers;
mod mat;
mod sets;

use std::path::Path;

use fs_err as fs;
use kvt_data::fs::{if_there, parent, write_folder};
use kvt_data::regular;
use toml::{Table, Value};

use self::sets::{ALL, Layout, Remote};
use super::hub::PATIENCE;
use super::listen::telling;
use super::sum::{Sum, of_file};
use super::{FetchError, download};

/// The file in a data set's folder with its name, its source and its licence.
const MANIFEST: &str = "dataset.toml";

/// A data set that can be fetched by name.
#[derive(Debug)]
pub struct Dataset {
    /// Its name.
    pub name: &'static str,
    /// What its photos show.
    pub about: &'static str,
    /// Training, validation and test images.
    pub images: [usize; 3],
    /// Its licence, or what its authors say of one.
    pub licence: &'static str,
    /// The page of its authors.
    pub page: &'static str,
    files: &'static [Remote],
    layout: Layout,
}

/// Whether a data set was fetched or was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It was fetched.
    Now,
    /// It was there.
    Before,
}

impl Dataset {
    /// All data sets.
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// Finds a data set by name.
    ///
    /// # Errors
    /// [`FetchError::NoData`] with all names.
    pub fn find(name: &str) -> Result<&'static Self, FetchError> {
        let mut all = ALL.iter();
        all.find(|one| one.name == name)
            .ok_or_else(|| FetchError::NoData {
                name: name.to_owned(),
                known: ALL.iter().map(|one| one.name.to_owned()).collect(),
            })
    }

    /// Bytes to download.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Makes the folder `out` with `train/<class>/*` and `val/<class>/*`, and `test/<class>/*` where there are test images.
    /// `progress` receives how many images are unpacked, and how many there are.
    ///
    /// # Errors
    /// If a file cannot be downloaded, has another checksum or cannot be unpacked, or `out` holds something else.
    pub fn fetch(
        &self,
        out: &Path,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Fetched, FetchError> {
        if self.is_there(out)? {
            return Ok(Fetched::Before);
        }
        let mut files = Vec::new();
        let mut downloaded = Vec::new();
        for remote in self.files {
            let path = parent(out).join(remote.name());
            if self.get(remote, &path)? {
                downloaded.push(path.clone());
            }
            files.push(path);
        }
        write_folder(out, |root| {
            let (mut done, total) = (0, self.images.iter().sum());
            self.layout.unpack(&files, root, &mut |more| {
                done += more;
                progress(done, total);
            })?;
            fs::write(root.join(MANIFEST), self.manifest()).map_err(FetchError::from)
        })?;
        for path in downloaded {
            fs::remove_file(path)?;
        }
        Ok(Fetched::Now)
    }

    /// Whether the folder has this data set; an error if it has something else.
    fn is_there(&self, out: &Path) -> Result<bool, FetchError> {
        let mut entries = if_there(fs::read_dir(out))?.into_iter().flatten();
        if entries.next().is_none() {
            return Ok(false);
        }
        let text = regular::read_to_string(&out.join(MANIFEST)).unwrap_or_default();
        let manifest: Table = text.parse().unwrap_or_default();
        if manifest.get("name").and_then(Value::as_str) == Some(self.name) {
            return Ok(true);
        }
        Err(FetchError::Occupied {
            path: out.to_owned(),
            name: self.name,
        })
    }

    /// Downloads a file unless it exists; returns whether it did.
    fn get(&self, remote: &Remote, path: &Path) -> Result<bool, FetchError> {
        let url = remote.url;
        let Some(sum) = Sum::parse(remote.sum) else {
            return Err(FetchError::NoChecksum {
                url: url.to_owned(),
                given: remote.sum.to_owned(),
            });
        };
        if path.is_file() {
            let found = of_file(path)?;
            if found == sum {
                return Ok(false);
            }
            return Err(FetchError::OtherFile {
                path: path.to_owned(),
                url: url.to_owned(),
                expected: sum.to_string(),
                found: found.to_string(),
            });
        }
        let what = format!("`{}`, licence: {}", remote.name(), self.licence);
        download::file(url, sum, path, PATIENCE, &mut telling(&what))
            .map_err(|error| error.or_placed(path))?;
        Ok(true)
    }

    fn manifest(&self) -> String {
        let urls = self.files.iter().map(|file| Value::from(file.url));
        Table::from_iter([
            ("name".to_owned(), self.name.into()),
            ("page".to_owned(), self.page.into()),
            ("licence".to_owned(), self.licence.into()),
            ("files".to_owned(), urls.collect::<Vec<_>>().into()),
        ])
        .to_string()
    }
}

#[cfg(test)]
mod tests;
