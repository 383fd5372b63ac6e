//! Errors of what is fetched by name.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::data::DataError;
use kvt_data::fs::parent;
use kvt_data::text::quoted;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name is unknown.
    #[error(
        "no published weights `{name}`{}: `kvt models list --weights` shows all names",
        instead(near)
    )]
    Unknown {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// There is neither a file of this name, nor are there published weights.
    #[error(
        "no file `{given}`, no folder, and no published weights of this name{}: `kvt models list --weights` shows all names",
        instead(near)
    )]
    Nothing {
        /// What was given.
        given: String,
        /// Similar names.
        near: Vec<String>,
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
    #[error("could not download `{url}`: this build of kvt lacks the feature `fetch`")]
    NoFeature {
        /// The address of the file.
        url: String,
    },
    /// The file was not downloaded, but may be put in a place.
    #[error(
        "{cause}; or get this file in another way, and put it at `{}`, where kvt looks before it downloads",
        .path.display()
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
        "the SHA-256 of `{}` is {found}, but {expected} is that of the file from `{url}`: the copy is damaged or of another version; \
         remove it, and it is downloaded",
        .path.display()
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
    #[error("could not unpack `{}`: {reason}", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is something else in the folder for a data set.
    #[error("`{}` holds something else than `{name}`: choose another folder with `--output`", .path.display())]
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
    /// Adds where a file can be put that could not be downloaded, and makes the folder for it.
    pub(super) fn or_placed(self, path: &Path) -> Self {
        match self {
            Self::NotThere { .. } | Self::Interrupted { .. } | Self::NoFeature { .. } => {
                // Without it, whoever has the file must make the folder.
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

/// Names to take instead, as the end of a clause.
pub(crate) fn instead(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; similar names: {}", quoted(near))
    }
}
