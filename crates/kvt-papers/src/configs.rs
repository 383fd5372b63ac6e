//! The configurations and sweeps of the papers' runs and of the demo.

use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use tempfile::TempDir;

/// Those of the repository from which this program was built.
static EMBEDDED: Dir<'_> = include_dir!("$KVT_CONFIGS");

/// The folder that a repository has them in.
const FOLDER: &str = "configs";

/// A folder of configurations.
pub(crate) struct Configs {
    pub(crate) path: PathBuf,
    /// Of the embedded ones, the copy, which is removed when it is dropped.
    copy: Option<TempDir>,
}

impl Configs {
    /// The given folder; or `configs` here, if it has sweeps; or those of the program.
    pub(crate) fn find(given: Option<&Path>) -> io::Result<Self> {
        let here = Path::new(FOLDER);
        let here = here.join("reproduce").is_dir().then_some(here);
        match given.or(here) {
            Some(path) => Ok(Self {
                path: path.to_owned(),
                copy: None,
            }),
            None => Self::embedded(),
        }
    }

    /// Those of the program, wherever it runs.
    pub(crate) fn embedded() -> io::Result<Self> {
        let copy = TempDir::new()?;
        EMBEDDED.extract(copy.path())?;
        Ok(Self {
            path: copy.path().to_owned(),
            copy: Some(copy),
        })
    }

    /// The path of a configuration as a reader knows it: that in the repository, if it is embedded.
    pub(crate) fn shown(&self, config: &Path) -> PathBuf {
        match config.strip_prefix(&self.path) {
            Ok(inside) if self.copy.is_some() => Path::new(FOLDER).join(inside),
            _ => config.to_owned(),
        }
    }
}
