//! The two splits of a plan's data, and the batches of an epoch.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::augment::Transform;
use crate::config::Plan;
use crate::data::text::quoted;
use crate::data::{
    DataError, DataState, DecodeMode, EpochOrder, ImageLimits, Loader, LoaderConfig, Prepare,
    Purpose, Sample, Source, Split, Views, balanced_order, epoch_order, open, oriented_batch_count,
    oriented_order, shapes, unused_splits,
};
use crate::task::TaskKind;
use crate::world::own_cores;

/// Sides of images with objects are padded to multiples of so many pixels, as in mmdetection.
pub const PAD_OBJECTS: usize = 32;

/// Training and validation images with their transforms.
#[derive(Clone, Debug)]
pub struct Splits {
    /// The training images.
    pub train: Arc<Source>,
    /// The validation images, with the training split's labels.
    pub val: Arc<Source>,
    train_views: Vec<Arc<Transform>>,
    pub(crate) val_transform: Arc<Transform>,
    state: DataState,
    /// `data.subset`.
    subset: usize,
    /// Warnings about splits that are not read.
    unused: Vec<String>,
}

impl Splits {
    /// Opens the data of a plan for images of `size` (height, width). A generated data set is created on first use, and
    /// `progress` is called with (images done, total images).
    ///
    /// With `classes` given (from a run that is resumed or evaluated), the folders must have exactly these, and labels
    /// follow that list.
    ///
    /// # Errors
    /// If folders are missing or do not match, or the generated data cannot be written.
    pub fn open(
        plan: &Plan,
        size: (usize, usize),
        classes: Option<&[String]>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, DataError> {
        ensure_data(plan, progress)?;
        let [train, val] = cached(plan, open(&plan.read_data(), classes)?);
        Ok(Self {
            state: DataState::of(&train, &val, plan.data.check_sizes),
            subset: plan.data.subset,
            unused: unused_splits(&plan.read_data()),
            train: Arc::new(train),
            val: Arc::new(val),
            train_views: vec![Arc::new(train_transform(plan, size)?)],
            val_transform: Arc::new(eval_transform(plan, size)?),
        })
    }

    /// These images with other views in training: one per transform, instead of the plan's single view.
    #[must_use]
    pub fn with_train_views(self, views: Vec<Arc<Transform>>) -> Self {
        Self {
            train_views: views,
            ..self
        }
    }

    /// The identity of these images.
    pub fn state(&self) -> DataState {
        self.state
    }

    /// Warnings about ignored files and missing parts of the folders.
    pub fn warnings(&self) -> Vec<String> {
        let folders = [&self.train, &self.val].into_iter();
        let mut warnings: Vec<String> = folders.flat_map(|folder| folder.warnings()).collect();
        let without = |source: &Source, what: &str, hint: &str| {
            let counts = source.class_counts();
            let classes = counts.len();
            let lost = counts.into_iter().zip(&source.classes);
            let lost = lost.filter(|(count, _)| *count == 0);
            let lost: Vec<String> = lost.map(|(_, class)| class.clone()).collect();
            (!lost.is_empty()).then(|| {
                let (count, names) = (lost.len(), quoted(&lost));
                format!("{count} of {classes} classes have no {what} images: {names}{hint}")
            })
        };
        let subset = match self.subset {
            0 => String::new(),
            images => format!("; `data.subset` is {images}, ask for more"),
        };
        let lost = [
            without(&self.train, "training", &subset),
            without(
                &self.val,
                "validation",
                "; nothing measures how well they are recognised",
            ),
        ];
        warnings.extend(lost.into_iter().flatten());
        warnings.extend(self.unused.iter().cloned());
        // Both parts of a folder that `data.val_fraction` divides have its other files.
        let mut said = HashSet::new();
        warnings.retain(|warning| said.insert(warning.clone()));
        warnings
    }

    /// In words, how many images train and validate, and where they are.
    pub fn describe(&self) -> String {
        let [train, val] = [&self.train, &self.val].map(|source| source.place());
        let among = if train == val {
            "others there".to_owned()
        } else {
            format!("in {val}")
        };
        let [trains, validate] = [&self.train, &self.val].map(|source| source.samples.len());
        let text = format!("{trains} images in {train} train, {validate} {among} validate");
        match [&self.train, &self.val].map(|source| source.unlabelled()) {
            [0, 0] => text,
            [trains, validate] => {
                format!("{text}; {trains} and {validate} of them have no label")
            }
        }
    }

    /// Class names in label order.
    pub fn classes(&self) -> &[String] {
        &self.train.classes
    }

    /// Micro-batches per training epoch.
    pub fn train_batch_count(&self, plan: &Plan) -> usize {
        match self.orientations(plan) {
            Some(wide) => oriented_batch_count(&wide, plan.train.batch_size),
            None => {
                let images = self.train.samples.len();
                plan.data.training_batches(plan.train.batch_size, images)
            }
        }
    }

    /// Updates per epoch; the last one can have fewer micro-batches.
    pub fn updates_per_epoch(&self, plan: &Plan) -> u64 {
        let batches = self.train_batch_count(plan);
        batches.div_ceil(plan.train.accumulate) as u64
    }

    /// The views of a training image; `target` gives the training target of a sample.
    pub fn train_views<T>(&self, plan: &Plan, target: fn(&Sample) -> T) -> Arc<Views<T>> {
        Arc::new(Views {
            transforms: self.train_views.clone(),
            target,
            limits: image_limits(plan),
            parts: plan.data.decode == DecodeMode::Scaled && self.train_views.len() == 1,
        })
    }

    /// What loads the batches of a training epoch from `first_batch` on; each image is prepared by `prepare`.
    pub fn train_loading<T>(
        &self,
        plan: &Plan,
        prepare: Arc<dyn Prepare<T>>,
        epoch: u32,
        first_batch: usize,
    ) -> LoaderConfig<T> {
        let images = self.train.samples.len();
        let batch_size = plan.train.batch_size;
        let order = match self.orientations(plan) {
            Some(wide) => EpochOrder {
                samples: oriented_order(
                    &wide,
                    batch_size,
                    epoch.into(),
                    plan.seed,
                    plan.data.shuffle,
                ),
                copies: Vec::new(),
            },
            None => balanced_order(
                plan.data.balance,
                &self.train.samples,
                epoch.into(),
                plan.seed,
            )
            .unwrap_or_else(|| {
                plan.data
                    .training_order(batch_size, images, epoch.into(), plan.seed)
            }),
        };
        LoaderConfig {
            order: order.samples,
            copies: order.copies,
            batch_size,
            purpose: Purpose::Train {
                drop_last: plan.data.drop_last,
            },
            first_batch,
            epoch: epoch.into(),
            ..loading(plan, &self.train, prepare)
        }
    }

    /// Whether each training image is wider than high, if batches are of one orientation.
    fn orientations(&self, plan: &Plan) -> Option<Vec<bool>> {
        let groups = plan.task == TaskKind::Detect && plan.data.groups_orientation();
        groups.then(|| self.train.orientations()).flatten()
    }

    /// Some images of a split, at equal distances, in order, with the transform for validation; 0 means all.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn some_images(
        &self,
        plan: &Plan,
        split: Split,
        images: usize,
    ) -> Result<Loader, DataError> {
        let source = match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
        };
        some_batches(plan, source, &self.val_transform, images)
    }
}

/// These images, kept in memory as far as `data.cache` allows.
fn cached(plan: &Plan, sources: [Source; 2]) -> [Source; 2] {
    match plan.data.cache {
        0 => sources,
        mebibytes => {
            let left = Arc::new(AtomicU64::new(mebibytes << 20));
            sources.map(|source| source.cached(&left))
        }
    }
}

/// Generates the data of a plan if it is a generated data set that does not exist yet.
///
/// # Errors
/// If it cannot be written, or the folder contains something else.
pub fn ensure_data(plan: &Plan, progress: &mut dyn FnMut(usize, usize)) -> Result<(), DataError> {
    if let Some(shapes) = &plan.data.shapes {
        shapes::ensure(shapes, &plan.data.path, progress)?;
    }
    Ok(())
}

/// The images of a source for one of `of` processes, in order, as they are prepared: whole batches, consecutive from process to process,
/// whose number differs by at most one. Together they are all images.
///
/// # Errors
/// If the loader cannot start.
pub fn prepared_batches<T: Send + 'static>(
    plan: &Plan,
    source: &Arc<Source>,
    prepare: Arc<dyn Prepare<T>>,
    batch_size: usize,
    (rank, of): (usize, usize),
) -> Result<Loader<T>, DataError> {
    let loading = eval_loading(plan, source, prepare);
    let images = loading.order.len();
    let batches = images.div_ceil(batch_size.max(1));
    let start = |rank: usize| (batches * rank / of * batch_size).min(images);
    let own = loading.order.get(start(rank)..start(rank + 1));
    Loader::start(LoaderConfig {
        order: own.unwrap_or_default().to_vec(),
        batch_size,
        ..loading
    })
}

/// Images of a source at equal distances, in order, transformed for evaluation; 0 means all.
///
/// # Errors
/// If the loader cannot start.
pub fn some_batches(
    plan: &Plan,
    source: &Arc<Source>,
    transform: &Arc<Transform>,
    images: usize,
) -> Result<Loader, DataError> {
    let mut loading = eval_loading(plan, source, eval_views(plan, transform));
    let all = loading.order.len();
    if (1..all).contains(&images) {
        loading.order = (0..images)
            .filter_map(|i| loading.order.get(i * all / images).copied())
            .collect();
    }
    Loader::start(loading)
}

/// How images for evaluation are prepared, with their class.
pub(crate) fn eval_views(plan: &Plan, transform: &Arc<Transform>) -> Arc<dyn Prepare<u32>> {
    Arc::new(Views {
        transforms: vec![Arc::clone(transform)],
        target: |sample| sample.label,
        limits: image_limits(plan),
        parts: false,
    })
}

fn eval_loading<T>(
    plan: &Plan,
    source: &Arc<Source>,
    prepare: Arc<dyn Prepare<T>>,
) -> LoaderConfig<T> {
    LoaderConfig {
        order: epoch_order(source.samples.len(), 0, plan.seed, false),
        batch_size: plan.eval.batch_size,
        ..loading(plan, source, prepare)
    }
}

/// The common settings of all loaders of a plan.
fn loading<T>(plan: &Plan, source: &Arc<Source>, prepare: Arc<dyn Prepare<T>>) -> LoaderConfig<T> {
    LoaderConfig {
        source: Arc::clone(source),
        prepare,
        pad_to: match plan.task {
            TaskKind::Detect => PAD_OBJECTS,
            TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino | TaskKind::Segment => 1,
        },
        order: Vec::new(),
        copies: Vec::new(),
        batch_size: 0,
        purpose: Purpose::Evaluate,
        first_batch: 0,
        every: 1,
        workers: plan.data.workers.count(own_cores()),
        prefetch: plan.data.prefetch,
        epoch: 0,
        seed: plan.seed,
        on_error: plan.data.on_error,
        max_skipped: plan.data.max_skipped,
    }
}

/// The limits of an image file of a plan.
pub fn image_limits(plan: &Plan) -> ImageLimits {
    ImageLimits {
        max_pixels: plan.data.max_pixels,
        alpha: plan.augment.channels() == 4,
    }
}

/// The transform of training images of `size` (height, width), for each image separately.
///
/// # Errors
/// If values of the plan are inconsistent.
pub fn train_transform(plan: &Plan, size: (usize, usize)) -> Result<Transform, DataError> {
    let transform = Transform::train(&plan.augment, size)?;
    // If images are mixed first, erasing is done on the device.
    Ok(if plan.mix.mixes_first() {
        transform.without_erasing()
    } else {
        transform
    })
}

/// The transform of images of `size` (height, width) for evaluation and prediction.
///
/// # Errors
/// If values of the plan are inconsistent.
pub fn eval_transform(plan: &Plan, size: (usize, usize)) -> Result<Transform, DataError> {
    Ok(Transform::evaluation(&plan.augment, size)?)
}
