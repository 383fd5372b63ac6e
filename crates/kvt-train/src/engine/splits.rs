//! The two splits of a plan's data, and the batches of an epoch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::augment::Transform;
use crate::config::Plan;
use crate::data::{
    ImageFolder, ImageLimits, Loader, LoaderConfig, Purpose, Sample, batch_count, epoch_order,
    shapes,
};

use super::{DataState, TrainError};

/// Training and validation images with their transforms.
#[derive(Clone, Debug)]
pub struct Splits {
    /// The training images.
    pub train: Arc<ImageFolder>,
    /// The validation images, with the training split's labels.
    pub val: Arc<ImageFolder>,
    train_transform: Arc<Transform>,
    val_transform: Arc<Transform>,
    state: DataState,
}

impl Splits {
    /// Opens the data of a plan for images of `size` (height, width). A generated data set is made
    /// on first use; `progress` then hears (images done, images in all).
    ///
    /// With `classes` given (from a run that is resumed or evaluated), the folders must have exactly
    /// these, and labels follow that list.
    ///
    /// # Errors
    /// If folders are missing or do not fit, or the generated data cannot be written.
    pub fn open(
        plan: &Plan,
        size: (usize, usize),
        classes: Option<&[String]>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        ensure_data(plan, progress)?;
        let train_root = plan.data.path.join(&plan.data.train);
        let train = match classes {
            Some(classes) => ImageFolder::open_with_classes(train_root, classes)?,
            None => ImageFolder::open(train_root, plan.data.class_order)?,
        };
        let val_root = plan.data.path.join(&plan.data.val);
        let val = ImageFolder::open_with_classes(val_root, &train.classes)?;
        let folders = [&train, &val];
        Ok(Self {
            state: DataState {
                train: train.samples.len(),
                val: val.samples.len(),
                listing: listing(folders),
                sizes: plan.data.check_sizes.then(|| sizes(folders)),
            },
            train: Arc::new(train),
            val: Arc::new(val),
            train_transform: Arc::new(Transform::train(&plan.augment, size)?),
            val_transform: Arc::new(eval_transform(plan, size)?),
        })
    }

    /// What identifies these images.
    pub fn state(&self) -> DataState {
        self.state
    }

    /// What was passed over in the folders, in words.
    pub fn warnings(&self) -> Vec<String> {
        let folders = [&self.train, &self.val].into_iter();
        folders
            .filter_map(|folder| {
                let others = folder.others.describe()?;
                let root = folder.root.display();
                Some(format!(
                    "files of other picture formats in `{root}` are not read: {others}; convert them to JPEG or PNG"
                ))
            })
            .collect()
    }

    /// Class names in label order.
    pub fn classes(&self) -> &[String] {
        &self.train.classes
    }

    /// Micro-batches of a training epoch.
    pub fn train_batch_count(&self, plan: &Plan) -> usize {
        let images = self.train.samples.len();
        batch_count(images, plan.train.batch_size, plan.data.drop_last)
    }

    /// The batches of a training epoch from `first_batch` on.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn train_batches(
        &self,
        plan: &Plan,
        epoch: u32,
        first_batch: usize,
    ) -> Result<Loader, TrainError> {
        let images = self.train.samples.len();
        Ok(Loader::start(LoaderConfig {
            source: Arc::clone(&self.train),
            transform: Arc::clone(&self.train_transform),
            order: epoch_order(images, epoch.into(), plan.seed, plan.data.shuffle),
            batch_size: plan.train.batch_size,
            purpose: Purpose::Train {
                drop_last: plan.data.drop_last,
            },
            first_batch,
            epoch: epoch.into(),
            ..loading(plan, &self.train, &self.train_transform)
        })?)
    }

    /// All validation images, in order.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn val_batches(&self, plan: &Plan) -> Result<Loader, TrainError> {
        eval_batches(plan, &self.val, &self.val_transform)
    }

    /// The files of training samples, by index.
    pub fn train_paths(&self, indices: &[u32]) -> Vec<PathBuf> {
        indices
            .iter()
            .filter_map(|&index| self.train.samples.get(index as usize))
            .map(|sample| sample.path.clone())
            .collect()
    }
}

/// A hash of the paths, relative to the folders, and labels: the folders may move.
fn listing(folders: [&ImageFolder; 2]) -> u64 {
    let mut hash = blake3::Hasher::new();
    for folder in folders {
        for sample in &folder.samples {
            hash.update(relative(folder, sample).as_os_str().as_encoded_bytes());
            hash.update(b"\0");
            hash.update(&sample.label.to_le_bytes());
        }
    }
    short(&hash)
}

/// A hash of the sizes of the files. On many threads: a disk far away takes its time for each.
fn sizes(folders: [&ImageFolder; 2]) -> u64 {
    let mut hash = blake3::Hasher::new();
    for folder in folders {
        let size = |sample: &Sample| match std::fs::metadata(&sample.path) {
            Ok(metadata) => metadata.len(),
            // A dead link: another size than any file.
            Err(_) => u64::MAX,
        };
        let sizes: Vec<u64> = folder.samples.par_iter().map(size).collect();
        for size in sizes {
            hash.update(&size.to_le_bytes());
        }
    }
    short(&hash)
}

fn relative<'a>(folder: &ImageFolder, sample: &'a Sample) -> &'a Path {
    let path = &sample.path;
    path.strip_prefix(&folder.root).unwrap_or(path)
}

/// The first 64 bits of a hash.
fn short(hash: &blake3::Hasher) -> u64 {
    let mut bytes = [0; 8];
    hash.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Makes the data of a plan if it is generated and not there yet.
///
/// # Errors
/// If it cannot be written, or something else is in its place.
pub fn ensure_data(plan: &Plan, progress: &mut dyn FnMut(usize, usize)) -> Result<(), TrainError> {
    if let Some(shapes) = &plan.data.shapes {
        shapes::ensure(shapes, &plan.data.path, progress)?;
    }
    Ok(())
}

/// All images of a source, in order, prepared for evaluation.
///
/// # Errors
/// If the loader cannot start.
pub fn eval_batches(
    plan: &Plan,
    source: &Arc<ImageFolder>,
    transform: &Arc<Transform>,
) -> Result<Loader, TrainError> {
    Ok(Loader::start(LoaderConfig {
        order: epoch_order(source.samples.len(), 0, plan.seed, false),
        batch_size: plan.eval.batch_size,
        ..loading(plan, source, transform)
    })?)
}

/// What all loaders of a plan share.
fn loading(plan: &Plan, source: &Arc<ImageFolder>, transform: &Arc<Transform>) -> LoaderConfig {
    LoaderConfig {
        source: Arc::clone(source),
        transform: Arc::clone(transform),
        order: Vec::new(),
        batch_size: 0,
        purpose: Purpose::Evaluate,
        first_batch: 0,
        workers: plan.data.workers.count(),
        prefetch: plan.data.prefetch,
        epoch: 0,
        seed: plan.seed,
        on_error: plan.data.on_error,
        max_skipped: plan.data.max_skipped,
        limits: image_limits(plan),
    }
}

/// How much an image file of a plan may ask for.
pub fn image_limits(plan: &Plan) -> ImageLimits {
    ImageLimits {
        max_pixels: plan.data.max_pixels,
    }
}

/// The preparation of images of `size` (height, width) for evaluation and prediction.
///
/// # Errors
/// If the plan's values make no sense together.
pub fn eval_transform(plan: &Plan, size: (usize, usize)) -> Result<Transform, TrainError> {
    Ok(Transform::evaluation(&plan.augment, size)?)
}
