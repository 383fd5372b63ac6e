//! The images that are available to an evaluation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Plan;
use crate::data::{Batch, DataError, Loader, Prepare, Skipped, Source, Split};
use crate::splits::{Splits, eval_views, prepared_batches};
use crate::world::World;

/// The images of a run, prepared for evaluation, in order. If the run is asked to stop, batches end early, and the
/// result of the evaluation is not used.
pub struct EvalData<'a> {
    plan: &'a Plan,
    splits: &'a Splits,
    stop: &'a AtomicBool,
    world: &'a dyn World,
    /// The images that each loader could not read.
    skipped: Vec<Vec<Skipped>>,
}

impl<'a> EvalData<'a> {
    /// For the splits of a plan, until `stop` is set. A share of a split is one of the processes of a job.
    pub fn new(
        plan: &'a Plan,
        splits: &'a Splits,
        stop: &'a AtomicBool,
        world: &'a dyn World,
    ) -> Self {
        Self {
            plan,
            splits,
            stop,
            world,
            skipped: Vec::new(),
        }
    }

    /// The processes that evaluate together.
    pub fn world(&self) -> &'a dyn World {
        self.world
    }

    /// This process's share of the validation split: all of it in a single process. Counts over the shares must be summed
    /// over [`world`](Self::world).
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn val_shard(
        &mut self,
    ) -> Result<impl Iterator<Item = Result<Batch, DataError>> + use<'_, 'a>, DataError> {
        let prepare = eval_views(self.plan, &self.splits.val_transform);
        self.val_prepared(prepare, self.plan.eval.batch_size)
    }

    /// As [`val_shard`](Self::val_shard), with images that are prepared otherwise, in batches of another size.
    ///
    /// # Errors
    /// If the loader cannot start.
    pub fn val_prepared<T: Send + 'static>(
        &mut self,
        prepare: Arc<dyn Prepare<T>>,
        batch_size: usize,
    ) -> Result<impl Iterator<Item = Result<Batch<T>, DataError>> + use<'_, 'a, T>, DataError> {
        let share = (self.world.rank(), self.world.size());
        let val = &self.splits.val;
        let loader = prepared_batches(self.plan, val, prepare, batch_size, share)?;
        Ok(self.batches(loader))
    }

    /// Some images of a split in each process, at equal distances, without augmentation; 0 means all.
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

    /// The validation images, with what is annotated in them.
    pub fn val_source(&self) -> &'a Source {
        &self.splits.val
    }

    fn batches<T: Send + 'static>(
        &mut self,
        mut loader: Loader<T>,
    ) -> impl Iterator<Item = Result<Batch<T>, DataError>> + use<'_, 'a, T> {
        let stop = self.stop;
        let skipped = self.skipped.push_mut(Vec::new());
        std::iter::from_fn(move || {
            let batch = loader.next();
            let new = loader.skipped().get(skipped.len()..).unwrap_or_default();
            skipped.extend_from_slice(new);
            batch.filter(|_| !stop.load(Ordering::Relaxed))
        })
    }

    /// The images that could not be read so far, split by split.
    pub fn skipped(&self) -> impl Iterator<Item = &[Skipped]> {
        self.skipped.iter().map(Vec::as_slice)
    }
}
