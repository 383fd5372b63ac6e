//! Why weights or a data set cannot be fetched.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::data::DataError;
use kvt_data::fs::parent;
use kvt_data::text::quoted;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A name is unknown, or a word is neither a file nor the name of published weights.
    #[error("no {what}{instead}: `kvt models list --weights` shows all names")]
    Unknown {
        /// What there is not, with the name.
        what: String,
        /// What may be meant, or why there is none, as the end of a clause.
        instead: String,
    },
    /// No data set has this name.
    #[error("no data set `{name}`: there are {}", quoted(known))]
    NoData {
        /// The name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// The server does not have the file.
    #[error(
        "the server has no `{url}` (status {status}): it may have been renamed, or the mirror of `HF_ENDPOINT` lacks it"
    )]
    NotThere {
        /// The address of the file.
        url: String,
        /// The status of the server's answer.
        status: u16,
    },
    /// The download was not completed.
    #[error(
        "could not download `{url}`: {reason}; any partial file is kept, and the same command resumes it"
    )]
    Interrupted {
        /// The address of the file.
        url: String,
        /// The message of the client.
        reason: String,
    },
    /// The feature is not compiled in.
    #[error("could not download `{0}`: this build of kvt lacks the feature `fetch`")]
    NoFeature(String),
    /// The file was not downloaded; the user may put it where kvt looks for it.
    #[error(
        "{cause}; or get this file in another way, and put it at `{path}`, where kvt looks before it downloads"
    )]
    Placed {
        /// Why it was not downloaded.
        cause: Box<FetchError>,
        /// The place.
        path: PathBuf,
    },
    /// The server does not say which file it has.
    #[error(
        "the server of `{url}` gives no SHA-256 of the file, or no commit (`{given}`): take another mirror in `HF_ENDPOINT`"
    )]
    NoChecksum {
        /// The file.
        url: String,
        /// What it gives instead.
        given: String,
    },
    /// The downloaded file does not have the promised checksum.
    #[error(
        "the SHA-256 of `{url}` is {found}, but {expected} was promised: the file was deleted; try again, or take another mirror"
    )]
    Checksum {
        /// The file.
        url: String,
        /// The promised checksum.
        expected: String,
        /// The checksum of the downloaded file.
        found: String,
    },
    /// A file that was already there does not have the known checksum.
    #[error(
        "`{path}` is damaged or of another version: its SHA-256 is {found}, but that of `{url}` is {expected}; remove the file, and kvt \
         downloads it again"
    )]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// Where it comes from.
        url: String,
        /// The known checksum.
        expected: String,
        /// That of the file.
        found: String,
    },
    /// An archive or a table of a data set is not as expected.
    #[error("could not unpack `{path}`: {reason}")]
    Archive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder for a data set is not empty, and holds another one.
    #[error("`{}` is not empty and is not the data set `{name}`: choose another folder with `--output`", .path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// The data set.
        name: &'static str,
    },
    /// The images of a data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl FetchError {
    /// What is wrong with an archive or a table of a data set.
    pub(super) fn archive(path: &Path, reason: impl Into<String>) -> Self {
        Self::Archive {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// Adds to a failed download where the user can put the file, and makes the folder for it.
    pub(super) fn or_placed(self, path: &Path) -> Self {
        match self {
            Self::NotThere { .. } | Self::Interrupted { .. } | Self::NoFeature(_) => {
                // Only a help: if this fails, the user makes the folder.
                let _ = fs::create_dir_all(parent(path));
                Self::Placed {
                    cause: Box::new(self),
                    path: path.to_owned(),
                }
            }
            other => other,
        }
    }
}
