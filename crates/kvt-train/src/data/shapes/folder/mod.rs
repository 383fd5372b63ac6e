//! The generated data set as an image folder with a manifest.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::unbounded;
use image::ImageFormat;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::staging::{self, Staging};
use super::{Figure, render};
use crate::data::DataError;
use crate::schema::{self, section};
use kvt_ops::Key;

const MANIFEST: &str = "dataset.toml";
/// Raised when the same settings give other pixels.
const VERSION: u32 = 1;

section! {
    /// The generated data set.
    pub struct ShapesConfig {
        /// Height and width of an image in pixels.
        pub image_size: u32 = 32, "x-range" = "[8, 1024]";
        /// Number of classes: the first so many shapes.
        pub classes: usize = 10, "x-range" = "[2, 10]";
        /// Training images of each class.
        pub train_per_class: usize = 500, "x-range" = "[1, 100000]";
        /// Validation images of each class.
        pub val_per_class: usize = 100, "x-range" = "[1, 100000]";
        /// Amount of clutter around the shape.
        pub clutter: f64 = 0.5, "x-range" = "[0, 1]";
        /// How much of the shape is covered; at 1 up to 60 % of it.
        pub occlusion: f64 = 0.3, "x-range" = "[0, 1]";
        /// Seed of the images, independent of the run's seed.
        pub seed: u64 = 0;
    }
}

/// The two parts of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// To learn from.
    Train,
    /// To measure on.
    Val,
}

impl Split {
    /// The folder name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
        }
    }
}

/// What was written or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The data set's folder.
    pub dir: PathBuf,
    /// Class names, byte-sorted as an image folder lists them.
    pub classes: Vec<String>,
    /// Training images.
    pub train: usize,
    /// Validation images.
    pub val: usize,
    /// Whether the images were made now.
    pub generated: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    shapes: ShapesConfig,
}

impl ShapesConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`DataError::ShapesConfig`] with the key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), DataError> {
        schema::check(self).map_err(|(key, refusal)| DataError::ShapesConfig { key, refusal })
    }

    /// The key of one image: larger data sets begin with the images of smaller ones.
    pub fn key(&self, split: Split, figure: Figure, index: usize) -> Key {
        Key::new(self.seed)
            .named("shapes")
            .named(split.name())
            .named(figure.name())
            .child(index as u64)
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        Figure::ALL.into_iter().take(self.classes)
    }

    fn per_class(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train_per_class,
            Split::Val => self.val_per_class,
        }
    }

    fn summary(&self, dir: &Path, generated: bool) -> Summary {
        let mut classes: Vec<_> = self.figures().map(|f| f.name().to_owned()).collect();
        classes.sort();
        Summary {
            dir: dir.to_owned(),
            classes,
            train: self.classes * self.train_per_class,
            val: self.classes * self.val_per_class,
            generated,
        }
    }

    /// The keys in which two settings differ, with their values.
    fn differences(&self, other: &Self) -> Result<String, String> {
        let table = |config: &Self| toml::Table::try_from(config).map_err(|e| e.to_string());
        let (found, wanted) = (table(self)?, table(other)?);
        let differing = wanted
            .iter()
            .filter(|(key, value)| found.get(*key) != Some(value));
        let words = differing.map(|(key, value)| match found.get(key) {
            Some(old) => format!("`{key}` is {old} there, {value} here"),
            None => format!("`{key}` is {value} here"),
        });
        Ok(words.collect::<Vec<_>>().join(", "))
    }
}

/// Uses the data set in `dir` if it was generated with these settings, or generates it if there is nothing. Removes what
/// killed processes left beside it.
///
/// # Errors
///
/// As [`generate`], and a folder that holds a data set with other settings, or something else.
pub fn ensure(
    config: &ShapesConfig,
    dir: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Summary, DataError> {
    config.validate()?;
    if is_vacant(dir)? {
        return make(config, dir, progress);
    }
    staging::remove_left_over(parent(dir));
    found(config, dir)
}

/// The data set in `dir`, if it was generated with these settings.
fn found(config: &ShapesConfig, dir: &Path) -> Result<Summary, DataError> {
    let path = dir.join(MANIFEST);
    if !path.is_file() {
        return Err(DataError::NotShapes(dir.to_owned()));
    }
    let manifest_error = |reason| DataError::Manifest {
        path: path.clone(),
        reason,
    };
    let found: Manifest = toml::from_str(&fs_err::read_to_string(&path)?)
        .map_err(|error| manifest_error(error.message().to_owned()))?;
    let mut differences = config_differences(&found, config).map_err(manifest_error)?;
    if found.version != VERSION {
        differences = format!("version {} there, {VERSION} here", found.version);
    }
    if !differences.is_empty() {
        return Err(DataError::OtherShapes {
            path: dir.to_owned(),
            differences,
        });
    }
    Ok(config.summary(dir, false))
}

fn config_differences(found: &Manifest, config: &ShapesConfig) -> Result<String, String> {
    found.shapes.differences(config)
}

/// Writes the data set to `dir`, which must be empty or not exist: `train/<class>/00000.png`, `val/<class>/...`, and
/// a manifest. The folder appears whole or not at all. If another process was faster and made the same, that is taken.
/// `progress` is called with (done, total) images.
///
/// # Errors
///
/// Settings out of range, a folder that is not empty, or a file that cannot be written.
pub fn generate(
    config: &ShapesConfig,
    dir: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Summary, DataError> {
    config.validate()?;
    match is_vacant(dir)? {
        true => make(config, dir, progress),
        false => Err(DataError::NotShapes(dir.to_owned())),
    }
}

fn make(
    config: &ShapesConfig,
    dir: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Summary, DataError> {
    let parent = parent(dir);
    fs_err::create_dir_all(parent)?;
    staging::remove_left_over(parent);
    // Beside the target, so that the last step is a rename.
    let staging = Staging::create(parent)?;
    let root = staging.data();
    let mut jobs = Vec::new();
    for split in [Split::Train, Split::Val] {
        for figure in config.figures() {
            let class = root.join(split.name()).join(figure.name());
            fs_err::create_dir_all(&class)?;
            for index in 0..config.per_class(split) {
                jobs.push((
                    class.join(format!("{index:05}.png")),
                    figure,
                    config.key(split, figure, index),
                ));
            }
        }
    }
    write_images(config, &jobs, progress)?;
    let manifest = Manifest {
        version: VERSION,
        shapes: config.clone(),
    };
    let path = root.join(MANIFEST);
    let text = toml::to_string(&manifest).map_err(|error| DataError::Write {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    fs_err::write(&path, text)?;
    // Not all systems rename onto an empty folder; one that is not empty stays.
    let _ = std::fs::remove_dir(dir);
    match fs_err::rename(&root, dir) {
        Ok(()) => Ok(config.summary(dir, true)),
        // Another process was faster.
        Err(error) if is_vacant(dir)? => Err(error.into()),
        Err(_) => found(config, dir),
    }
}

/// The folder in which `dir` is or will be.
fn parent(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Draws and writes on all cores; `progress` is called on this thread.
fn write_images(
    config: &ShapesConfig,
    jobs: &[(PathBuf, Figure, Key)],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), DataError> {
    let (done, finished) = unbounded();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            jobs.par_iter()
                .for_each_with(done, |done, (path, figure, key)| {
                    if !stop.load(Ordering::Relaxed) {
                        // The receiver is gone only after an error, when results no longer matter.
                        let _ = done.send(write_image(config, path, *figure, *key));
                    }
                });
        });
        for (count, result) in (1..).zip(finished) {
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            result?;
            progress(count, jobs.len());
        }
        Ok(())
    })
}

fn write_image(
    config: &ShapesConfig,
    path: &Path,
    figure: Figure,
    key: Key,
) -> Result<(), DataError> {
    let side = config.image_size as usize;
    let image = render(
        figure,
        side,
        config.clutter as f32,
        config.occlusion as f32,
        key,
    );
    let mut bytes = Cursor::new(Vec::new());
    image
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| DataError::Write {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    fs_err::write(path, bytes.into_inner())?;
    Ok(())
}

/// Whether nothing is there, or an empty folder.
fn is_vacant(dir: &Path) -> Result<bool, DataError> {
    match fs_err::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
