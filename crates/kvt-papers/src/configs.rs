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
pub(crate) enum Configs {
    /// A folder of the user.
    There(PathBuf),
    /// A copy of the embedded ones, which is removed when it is dropped.
    Copied(TempDir),
}

impl Configs {
    /// The given folder; or `configs` here, if it has sweeps; or those of the program.
    pub(crate) fn find(given: Option<&Path>) -> io::Result<Self> {
        let here = Path::new(FOLDER);
        match given {
            Some(given) => Ok(Self::There(given.to_owned())),
            None if here.join("reproduce").is_dir() => Ok(Self::There(here.to_owned())),
            None => Self::embedded(),
        }
    }

    /// Those of the program, wherever it runs.
    pub(crate) fn embedded() -> io::Result<Self> {
        let copy = TempDir::new()?;
        EMBEDDED.extract(copy.path())?;
        Ok(Self::Copied(copy))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::There(path) => path,
            Self::Copied(copy) => copy.path(),
        }
    }

    /// The path of a configuration as a reader knows it: that in the repository, if it is embedded.
    pub(crate) fn shown(&self, config: &Path) -> PathBuf {
        match self {
            Self::There(_) => config.to_owned(),
            Self::Copied(copy) => match config.strip_prefix(copy.path()) {
                Ok(inside) => Path::new(FOLDER).join(inside),
                Err(_) => config.to_owned(),
            },
        }
    }
}
