//! What a probe judges: the features of a model on the images of a plan.

use burn::tensor::Device;
use kvt_ops::Key;

use super::{Crops, Extractor, LinearEpoch, LinearProbe, LinearRecipe};
use super::{cut_images, linear, shuffled};
use crate::trained::Warn;
use kvt_data::{Batch, Loader, Split};
use kvt_train::config::Plan;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::{Rows, collect};
use kvt_train::splits::Splits;

/// Features, and their images.
#[derive(Debug)]
pub struct Subject {
    /// The plan, with the batch size of the probe.
    pub plan: Plan,
    /// Its images.
    pub splits: Splits,
    /// Height and width of an image.
    pub size: (usize, usize),
    /// The device, without autodiff.
    pub device: Device,
    /// What computes the features.
    pub extractor: Extractor,
}

impl Subject {
    /// The number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.splits.classes().len()
    }

    /// The features of `images` images of a split, or of all if it is 0, without augmentation. `progress` gets the number of images
    /// done and of all.
    ///
    /// # Errors
    /// If no image can be read, or the device fails; of the images that cannot be read it warns.
    pub fn rows(
        &self,
        split: Split,
        images: usize,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<Rows, TrainError> {
        let source = match split {
            Split::Train => &self.splits.train,
            Split::Val => &self.splits.val,
        };
        let all = match images {
            0 => source.samples.len(),
            images => images.min(source.samples.len()),
        };
        let mut done = 0;
        progress(done, all);
        let mut batches = self.splits.some_images(&self.plan, split, images)?;
        let rows = collect(&mut batches, &self.device, |images| {
            done += images.dims()[0];
            progress(done, all);
            self.extractor.features(images)
        });
        for warning in batches.warnings() {
            warn(&warning);
        }
        rows
    }

    /// Trains a linear layer on the features of training images, and judges it on `val` after each epoch. `bank` computes the
    /// features of training images that are not cropped; `tell` receives each epoch, and returns whether to continue.
    ///
    /// # Errors
    /// If images cannot be read, settings contradict each other, or the device fails.
    pub fn linear(
        &self,
        recipe: &LinearRecipe,
        crops: Crops,
        val: &Rows,
        bank: impl FnOnce() -> Result<Rows, TrainError>,
        tell: impl FnMut(&LinearEpoch) -> bool,
    ) -> Result<Vec<LinearEpoch>, TrainError> {
        let (device, seed) = (&self.device, self.plan.seed);
        let key = Key::new(seed).named("probe");
        let layer = LinearProbe::new(val.dim, self.classes(), device, key);
        if crops == Crops::None {
            let bank = bank()?;
            let batches = |epoch: u32| {
                let batches = shuffled(&bank, device, seed, recipe.batch_size, epoch);
                Ok(batches.map(Ok))
            };
            return linear(recipe, layer, (val, device), batches, tell);
        }
        let (plan, splits) = cut_images(&self.plan, &self.splits, self.size, crops)?;
        let batches = |epoch: u32| {
            let prepare = splits.train_views(&plan, |sample| sample.label);
            let loader = Loader::start(splits.train_loading(&plan, prepare, epoch, 0))?;
            Ok(loader.map(|batch| -> Result<_, TrainError> {
                let Batch {
                    mut views, targets, ..
                } = batch?;
                let images = views.swap_remove(0).upload(device);
                Ok((self.extractor.features(images), targets))
            }))
        };
        linear(recipe, layer, (val, device), batches, tell)
    }
}
