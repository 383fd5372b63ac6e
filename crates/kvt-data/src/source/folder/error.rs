//! Class folders that cannot be used.

use std::path::PathBuf;

use crate::listing::OtherFormats;
use crate::source::is_usual;
use crate::text::quoted;

/// What is wrong with a folder of class folders.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder of a split does not exist.
    #[error("no folder `{}`: expected an image folder `{}/<class>/*.jpg`", .0.display(), .0.display())]
    MissingFolder(PathBuf),
    /// The folder of a split contains no class folder.
    #[error("`{}` has no class folders: expected `<class>/*.jpg` in it", .0.display())]
    NoClasses(PathBuf),
    /// The images are directly in the split's folder.
    #[error(
        "`{}` holds images but no class folders: move each image into a folder named by its class, `{}/<class>/*.jpg`, \
         or name a table with their paths and labels in `data.labels`{}",
        path.display(), path.display(), such_as(tables)
    )]
    FlatFolder {
        /// The folder.
        path: PathBuf,
        /// The tables of labels in it.
        tables: Vec<String>,
    },
    /// A class folder without a supported image.
    #[error("class folder `{}` has no image{}", path.display(), instead(others))]
    EmptyClass {
        /// The folder.
        path: PathBuf,
        /// The unsupported images in it.
        others: OtherFormats,
    },
    /// A class folder whose name is not valid UTF-8.
    #[error("the name of class folder `{}` is not valid UTF-8: rename it", .0.display())]
    ClassName(PathBuf),
    /// Shards or Parquet files where class folders are expected.
    #[error(
        "`{}` holds {files}, not class folders: `data.kind = \"{kind}\"` reads them, where `data.path` is the folder that holds `train` \
         and `val`",
        path.display()
    )]
    NotFolders {
        /// The folder.
        path: PathBuf,
        /// What is there, in words.
        files: &'static str,
        /// The value of `data.kind` for it.
        kind: &'static str,
    },
    /// Splits where class folders are expected.
    #[error(
        "`{}` holds splits, not classes: {}; the images of one are in `{}`; if these are classes after all, rename it",
        path.display(), quoted(splits), path.join(one_of(splits)).display()
    )]
    SplitsAsClasses {
        /// The folder.
        path: PathBuf,
        /// The names of its splits.
        splits: Vec<String>,
    },
    /// Images and what belongs to them where class folders are expected.
    #[error(
        "`{}` holds images and what is known of them, not classes: {}; in a configuration, `task = \"segment\"` with `data.kind = \"masks\"` \
         learns masks, and `task = \"detect\"` with `data.kind = \"coco\"` annotations; if these are classes after all, rename one",
        path.display(), quoted(folders)
    )]
    PairsAsClasses {
        /// The folder.
        path: PathBuf,
        /// The names of the folders in it.
        folders: Vec<String>,
    },
}

fn such_as(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        tables => format!(", such as {}", quoted(tables)),
    }
}

/// A split with a usual name, or the last one.
fn one_of(splits: &[String]) -> &str {
    let usual = splits.iter().rfind(|name| is_usual(name));
    usual.or(splits.last()).map_or("", String::as_str)
}

/// The content of a class folder without images, and what to do.
fn instead(others: &OtherFormats) -> String {
    match others.describe() {
        Some(found) => format!(" that is read, only {found}: convert them to JPEG or PNG"),
        None => {
            ": add a .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif file, or remove the folder"
                .to_owned()
        }
    }
}
