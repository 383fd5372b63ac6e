//! The images that an evaluation may look at.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Plan;
use crate::data::{Batch, DataError, Loader, Skipped, Split, Splits};

/// The images of a run, prepared for evaluation, in order. When the run is asked to stop, batches end early; what the
/// evaluation then comes to is not used.
pub struct EvalData<'a> {
    plan: &'a Plan,
    splits: &'a Splits,
    stop: &'a AtomicBool,
    /// The loaders that were started.
    loaders: Vec<Loader>,
}

impl<'a> EvalData<'a> {
    /// Of the splits of a plan, until `stop` is set.
    pub fn new(plan: &'a Plan, splits: &'a Splits, stop: &'a AtomicBool) -> Self {
        Self {
            plan,
            splits,
            stop,
            loaders: Vec::new(),
        }
    }

    /// The validation split.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn val(
        &mut self,
    ) -> Result<impl Iterator<Item = Result<Batch, DataError>> + use<'_, 'a>, DataError> {
        let loader = self.splits.val_batches(self.plan)?;
        Ok(self.batches(loader))
    }

    /// The training split, without its augmentation: what a k-NN classifier looks its neighbours up in.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn train(
        &mut self,
    ) -> Result<impl Iterator<Item = Result<Batch, DataError>> + use<'_, 'a>, DataError> {
        let loader = self.splits.train_images(self.plan)?;
        Ok(self.batches(loader))
    }

    /// Some images of a split, at equal distances, without augmentation; with 0 all of them.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn some(
        &mut self,
        split: Split,
        images: usize,
    ) -> Result<impl Iterator<Item = Result<Batch, DataError>> + use<'_, 'a>, DataError> {
        let loader = self.splits.some_images(self.plan, split, images)?;
        Ok(self.batches(loader))
    }

    /// The classes of the images, in label order.
    pub fn classes(&self) -> &'a [String] {
        self.splits.classes()
    }

    fn batches(
        &mut self,
        loader: Loader,
    ) -> impl Iterator<Item = Result<Batch, DataError>> + use<'_, 'a> {
        let stop = self.stop;
        self.loaders.push(loader);
        let loader = self.loaders.last_mut().into_iter();
        loader
            .flatten()
            .take_while(move |_| !stop.load(Ordering::Relaxed))
    }

    /// The images that could not be read so far, split by split.
    pub fn skipped(&self) -> impl Iterator<Item = &[Skipped]> {
        self.loaders.iter().map(Loader::skipped)
    }
}
