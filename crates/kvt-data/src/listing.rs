//! The content of a split's folder: class folders, images, and image files that are not supported.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::source::{is_usual, splits_among};
use crate::text::counted;
use crate::{DataError, DataKind, FolderError, file, is_whole, label_tables};

/// The extensions of supported images.
const READ: [&str; 8] = ["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "gif"];

/// The extensions of unsupported images: other formats, cameras' raw formats, and other names of supported formats.
const NOT_READ: [&str; 33] = [
    "apng", "arw", "avif", "cr2", "cr3", "dib", "dng", "eps", "exr", "heic", "heif", "hif", "ico",
    "j2k", "jfif", "jif", "jp2", "jpe", "jxl", "nef", "orf", "pbm", "pcx", "pgm", "pnm", "ppm",
    "psd", "raf", "raw", "rw2", "svg", "tga", "xcf",
];

/// The usual names of a folder of images, and of those of their masks and annotations beside it.
const OF_PAIRS: [&str; 4] = ["images", "masks", "annotations", "labels"];

/// Unsupported image files with the same extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRead {
    /// The files.
    pub count: usize,
    /// The first one, by path.
    pub example: PathBuf,
}

/// Files that are not read, such as unsupported images, by their extension in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherFormats(pub BTreeMap<String, NotRead>);

impl OtherFormats {
    /// The total number of files.
    pub fn count(&self) -> usize {
        self.0.values().map(|kind| kind.count).sum()
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (ending, kind) in other.0 {
            self.add(ending, kind.count, kind.example);
        }
    }

    /// Adds so many files, of which the first one by path is given.
    pub(super) fn add(&mut self, ending: String, count: usize, example: PathBuf) {
        let kind = self.0.entry(ending).or_insert_with(|| NotRead {
            count: 0,
            example: example.clone(),
        });
        kind.count += count;
        if example < kind.example {
            kind.example = example;
        }
    }

    /// A warning that these files of a folder are not read; `None` if there are none.
    pub fn warning(&self, root: &Path) -> Option<String> {
        let others = self.describe()?;
        let root = root.display();
        Some(format!(
            "files of other picture formats in `{root}` are not read: {others}; convert them to JPEG or PNG"
        ))
    }

    /// The extensions with their counts and an example each; `None` if there are no such files.
    pub fn describe(&self) -> Option<String> {
        let kinds = self.0.iter().map(|(ending, kind)| {
            let example = kind.example.display();
            format!("{} .{ending}, such as `{example}`", kind.count)
        });
        let kinds: Vec<_> = kinds.collect();
        (!kinds.is_empty()).then(|| kinds.join("; "))
    }
}

/// A dead or circular link, or a folder that cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// The link or folder.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The class folders of a split.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) names: Vec<String>,
    /// Links and folders that could be class folders.
    pub(super) unlisted: Vec<Unlisted>,
    /// Images beside the class folders, whether they exist or not: they have no class.
    loose: Vec<PathBuf>,
}

impl Classes {
    /// A warning about the images without a class; `None` if there are none.
    pub(super) fn warning(&self, root: &Path) -> Option<String> {
        let first = self.loose.iter().min()?;
        Some(format!(
            "{} beside the class folders of `{}`, such as `{}`: without a class, not used",
            counted(self.loose.len(), "image"),
            root.display(),
            first.display()
        ))
    }
}

/// Lists the class folders of a split; hidden ones are ignored.
pub(super) fn classes(root: &Path) -> Result<Classes, DataError> {
    if !root.is_dir() {
        return Err(FolderError::MissingFolder(root.to_owned()).into());
    }
    let mut found = Classes::default();
    for entry in fs_err::read_dir(root)? {
        let entry = entry?;
        let path = entry.path();
        if is_hidden(&entry.file_name()) {
            continue;
        }
        // Not `entry.file_type()`: a link to a class folder is a class folder.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let name = entry.file_name().into_string();
                found
                    .names
                    .push(name.map_err(|_| FolderError::ClassName(path))?);
            }
            _ if is_image(&path) => found.loose.push(path),
            Ok(_) => {}
            Err(error) => found.unlisted.push(Unlisted {
                reason: file::why(&path, &error),
                path,
            }),
        }
    }
    found.unlisted.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(splits) = splits_in(root, &found.names) {
        let path = root.to_owned();
        return Err(FolderError::SplitsAsClasses { path, splits }.into());
    }
    if are_pairs(&found.names) {
        let (path, mut folders) = (root.to_owned(), found.names);
        folders.sort();
        return Err(FolderError::PairsAsClasses { path, folders }.into());
    }
    match (found.names.is_empty(), found.unlisted.first()) {
        (true, Some(first)) => Err(DataError::Unlisted(first.clone())),
        (true, None) if found.loose.is_empty() => Err(without_classes(root)),
        (true, None) => Err(FolderError::FlatFolder {
            path: root.to_owned(),
            tables: label_tables(root),
        }
        .into()),
        (false, _) => Ok(found),
    }
}

/// Whether folders are those of images and of their masks or annotations: as classes they would train without any complaint.
fn are_pairs(folders: &[String]) -> bool {
    let place = |name: &String| {
        OF_PAIRS
            .iter()
            .position(|known| name.eq_ignore_ascii_case(known))
    };
    let places: Vec<_> = folders.iter().map(place).collect();
    places.len() > 1 && places.contains(&Some(0)) && !places.contains(&None)
}

/// The error for a folder without class folders.
fn without_classes(root: &Path) -> DataError {
    let kinds = [
        (DataKind::Tar, "tar shards", "tar"),
        (DataKind::Parquet, "Parquet files", "parquet"),
    ];
    let found = kinds.into_iter().find(|(kind, ..)| is_whole(*kind, root));
    let path = root.to_owned();
    match found {
        Some((_, files, kind)) => FolderError::NotFolders { path, files, kind }.into(),
        None => FolderError::NoClasses(path).into(),
    }
}

/// The names of splits among folders: by the names alone; or all of them, if one with a usual name has folders in place of
/// images, and shares the name of one with another folder. A class may be called `train` and have folders too.
fn splits_in(root: &Path, folders: &[String]) -> Option<Vec<String>> {
    splits_among(folders).or_else(|| {
        // A split itself holds classes.
        let name = root.file_name().and_then(OsStr::to_str);
        if name.is_some_and(is_usual) {
            return None;
        }
        let inner = |name: &String| {
            let dirs = shown(&root.join(name)).filter(|path| path.is_dir());
            let names = dirs.filter_map(|dir| dir.file_name().map(OsStr::to_owned));
            names.collect::<HashSet<_>>()
        };
        let is_split = |name: &&String| is_usual(name) && !holds_images(&root.join(name));
        let of_split = inner(folders.iter().find(is_split)?);
        let mut others = folders.iter().filter(|name| !is_usual(name));
        let mut all = folders.to_vec();
        all.sort();
        others
            .any(|name| !of_split.is_disjoint(&inner(name)))
            .then_some(all)
    })
}

/// Whether an image is directly in a folder.
fn holds_images(dir: &Path) -> bool {
    let mut entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.any(|entry| is_image(&entry.path()))
}

/// Whether a folder in this one, other than a hidden one, directly contains an image: then these folders are classes.
pub(super) fn holds_classes(root: &Path) -> bool {
    shown(root).any(|folder| holds_images(&folder))
}

/// What is directly in a folder, without hidden entries; nothing if it cannot be listed.
pub(super) fn shown(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let shown = entries.filter(|entry| !is_hidden(&entry.file_name()));
    shown.map(|entry| entry.path())
}

/// The files in a folder with this extension, in small or capital letters, by the bytes of their names, without hidden ones. They hold
/// many images each: none is left out of a listing that breaks off, which has no files.
pub(super) fn with_ending(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let is_right = |path: &PathBuf| {
        path.extension()
            .is_some_and(|found| found.eq_ignore_ascii_case(ending))
            && !path.file_name().is_some_and(is_hidden)
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    // One after the other: a folder of images may have millions of other files.
    let files = paths.filter(|path| path.as_ref().map_or(true, is_right));
    let files: io::Result<Vec<PathBuf>> = files.collect();
    let mut files = files.unwrap_or_default();
    files.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    files
}

/// The picture files in a folder and its subfolders, without hidden ones.
#[derive(Debug, Default)]
pub struct Files {
    /// All entries with the name of an image, by name; those that are not readable files are unreadable images.
    pub images: Vec<PathBuf>,
    /// Those in other formats.
    pub others: OtherFormats,
    /// Dead and circular links, and folders that cannot be listed.
    pub(super) unlisted: Vec<Unlisted>,
}

/// Lists a class folder. Links are followed; hidden files and folders, and files with other extensions, are ignored.
pub(super) fn images(dir: &Path) -> Files {
    let mut listing = Files::default();
    let entries = WalkDir::new(dir)
        .follow_links(true)
        .min_depth(1)
        .into_iter()
        .filter_entry(|entry| !is_hidden(entry.file_name()));
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_type().is_dir() => {}
            Ok(entry) => {
                let path = entry.into_path();
                if is_image(&path) {
                    listing.images.push(path);
                } else if let Some(ending) = other_format(&path) {
                    listing.others.add(ending, 1, path);
                }
            }
            Err(error) => match error.path() {
                // Dead links reach this point before they are filtered.
                Some(path) if path.file_name().is_some_and(is_hidden) => {}
                Some(path) if is_image(path) && file::is_dead_link(path) => {
                    listing.images.push(path.to_owned());
                }
                path => {
                    let path = path.unwrap_or(dir).to_owned();
                    let reason = match (error.loop_ancestor(), error.io_error()) {
                        (Some(ancestor), _) => format!(
                            "a link in a circle, to the folder `{}` that contains it",
                            ancestor.display()
                        ),
                        (None, Some(error)) => file::why(&path, error),
                        (None, None) => error.to_string(),
                    };
                    listing.unlisted.push(Unlisted { path, reason });
                }
            },
        }
    }
    listing.images.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    listing.unlisted.sort_by(|a, b| a.path.cmp(&b.path));
    listing
}

/// The picture files in a folder and its subfolders.
///
/// # Errors
/// For a dead or circular link, or a folder that cannot be listed.
pub fn image_files(dir: &Path) -> Result<Files, DataError> {
    let files = images(dir);
    match files.unlisted.first() {
        Some(first) => Err(DataError::Unlisted(first.clone())),
        None => Ok(files),
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Whether a file is a supported image, by its name.
pub(super) fn is_image(path: &Path) -> bool {
    ending(path).is_some_and(|found| is_read(&found))
}

/// Whether a file with this extension, in lower case, is a supported image.
pub(super) fn is_read(ending: &str) -> bool {
    READ.contains(&ending)
}

/// Whether a file with this extension, in lower case, is an image that is not read.
pub(super) fn is_other_format(ending: &str) -> bool {
    NOT_READ.contains(&ending)
}

/// The extension, in lower case, of an image that is not read.
pub(super) fn other_format(path: &Path) -> Option<String> {
    ending(path).filter(|found| is_other_format(found))
}

/// The part after the last dot of a name, in lower case.
fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}
