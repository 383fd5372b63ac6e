//! Classes that are not those expected, or that cannot be told apart.

use std::path::PathBuf;

use unicode_normalization::UnicodeNormalization;

use crate::text::quoted;

/// What is wrong with the classes of a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassError {
    /// The classes of the folder are not the expected ones.
    #[error(
        "the classes of `{}` are not those expected: {}{}",
        path.display(), differences(missing, extra), forms(missing, extra)
    )]
    ClassesDiffer {
        /// The folder.
        path: PathBuf,
        /// Expected classes that are missing.
        missing: Vec<String>,
        /// Class folders that were not expected.
        extra: Vec<String>,
    },
    /// A class whose name cannot be written to a line.
    #[error("`{}` has a class named {class:?}: a name has one line, and is not empty", path.display())]
    ClassLine {
        /// The folder.
        path: PathBuf,
        /// The name.
        class: String,
    },
    /// The list of `data.classes` does not exist.
    #[error("no file `{}`: `data.classes` is the path of a file with a class on each line, or their number, from 1 to 255", .0.display())]
    NoList(PathBuf),
    /// Two classes with the same name.
    #[error(
        "two of the classes of `{}` are called `{class}`, and labels are matched by name: give each a name of its own",
        path.display()
    )]
    TwoClasses {
        /// The folder.
        path: PathBuf,
        /// Their name.
        class: String,
    },
}

/// The differences between the classes of a folder and the expected ones.
fn differences(missing: &[String], extra: &[String]) -> String {
    let parts = [("it lacks", missing), ("it also has", extra)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", quoted(names)));
    parts.collect::<Vec<_>>().join(", ")
}

/// A hint if a class that is missing is there in another Unicode form, as macOS writes it: the two look the same.
fn forms(missing: &[String], extra: &[String]) -> String {
    let composed = |name: &String| name.nfc().collect::<String>();
    let mut pairs = missing
        .iter()
        .flat_map(|name| extra.iter().map(move |other| (name, other)));
    let found = pairs.find(|(name, other)| composed(name) == composed(other));
    found.map_or(String::new(), |(name, other)| {
        format!(
            "; `{}` is there as `{}`, which differs in its Unicode form alone: rename one of them",
            name.escape_default(),
            other.escape_default()
        )
    })
}
