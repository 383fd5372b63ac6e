//! A generated data set that cannot be made, or is not there.

use std::path::PathBuf;

use crate::schema::Refusal;

/// What is wrong with a generated data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapesError {
    /// An invalid setting of the generated data set.
    #[error("`data.shapes.{key}` is {}: expected {}", .refusal.value, .refusal.expected)]
    Config {
        /// The key.
        key: String,
        /// Its value, and what is allowed.
        refusal: Refusal,
    },
    /// The folder for the generated data set contains another one.
    #[error(
        "`{}` holds a data set generated with other settings ({differences}): remove the folder, or choose another `data.path`",
        path.display()
    )]
    OtherSettings {
        /// The folder.
        path: PathBuf,
        /// The settings that differ.
        differences: String,
    },
    /// The folder for the generated data set contains something else.
    #[error("`{}` is not empty and does not contain a generated data set: choose another `data.path`", .0.display())]
    NotGenerated(PathBuf),
}
