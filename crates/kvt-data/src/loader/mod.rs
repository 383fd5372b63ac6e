//! Batches of decoded, augmented images, prepared by worker threads and delivered in the order of the epoch.
//!
//! A batch depends only on its position in the order and on the keys of its samples: any number of workers gives the
//! same epoch, and starting at batch `n` gives the same batches as a full epoch from batch `n` on.

mod error;
mod make;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::error::LoaderError;
use self::make::Made;
use crate::ordered::Ordered;
use crate::prepare::Prepare;
use crate::{Batch, DataError, DecodeError, OnError, Source, batch_count};

/// The purpose of the batches, which determines the treatment of incomplete batches and unreadable images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Batches keep their size: an unreadable image is replaced by the next readable one of the order.
    Train {
        /// Drop the incomplete last batch, unless it is the only one.
        drop_last: bool,
    },
    /// Every readable image exactly once: an unreadable one is left out, which makes its batch smaller.
    Evaluate,
}

/// The settings of [`Loader::start`].
#[derive(Clone)]
pub struct LoaderConfig<T = u32> {
    /// The labelled images.
    pub source: Arc<Source>,
    /// What makes views and target of an image.
    pub prepare: Arc<dyn Prepare<T>>,
    /// Height and width of a batch are those of its largest image, rounded up to a multiple of this.
    pub pad_to: usize,
    /// Sample indices in the order of the epoch, see [`epoch_order`](crate::epoch_order).
    pub order: Vec<u32>,
    /// Which copy of its sample each position of the order has, from 0; empty if all are the first. Each copy is augmented
    /// differently.
    pub copies: Vec<u32>,
    /// Images per batch.
    pub batch_size: usize,
    /// Training or evaluation.
    pub purpose: Purpose,
    /// The first batch to deliver, to continue in the middle of an epoch.
    pub first_batch: usize,
    /// Distance between delivered batches: 1 delivers all of them, larger values those of one of several processes.
    pub every: usize,
    /// Threads; 0 decodes on the calling thread.
    pub workers: usize,
    /// Maximum number of finished batches that wait, besides the one that each worker prepares.
    pub prefetch: usize,
    /// The epoch, for the keys of the augmentation.
    pub epoch: u64,
    /// The seed of the run, for the keys of the augmentation.
    pub seed: u64,
    /// What an unreadable image does; a skipped one is treated as described in [`Purpose`].
    pub on_error: OnError,
    /// Maximum number of unreadable images per epoch that are skipped; one more is an error.
    pub max_skipped: usize,
}

/// A skipped image, and why it is unreadable.
pub type Skipped = DecodeError;

/// The batches of one epoch. It ends after the last batch or the first error; dropping it stops the workers.
pub struct Loader<T = u32> {
    batches: Ordered<Result<Made<T>, DataError>>,
    config: Arc<LoaderConfig<T>>,
    skipped: Vec<Skipped>,
    /// The paths of skipped images.
    known: HashSet<PathBuf>,
    remaining: usize,
    failed: bool,
}

impl<T: Send + 'static> Loader<T> {
    /// Starts the workers for the epoch.
    ///
    /// # Errors
    ///
    /// If the batch size is 0, the order contains samples that the source does not have, or a thread does not start.
    pub fn start(config: LoaderConfig<T>) -> Result<Self, DataError> {
        if config.batch_size == 0 {
            return Err(LoaderError::EmptyBatch.into());
        }
        let len = config.source.samples.len();
        if let Some(&index) = config.order.iter().find(|&&i| i as usize >= len) {
            let path = config.source.root.clone();
            return Err(LoaderError::NoSuchSample { index, len, path }.into());
        }
        let drop_last = config.purpose == Purpose::Train { drop_last: true };
        let end = batch_count(config.order.len(), config.batch_size, drop_last);
        let first = config.first_batch.min(end);
        let every = config.every.max(1);
        let count = (end - first).div_ceil(every);
        let (workers, prefetch) = (config.workers, config.prefetch);
        let config = Arc::new(config);
        let own = Arc::clone(&config);
        let batches = Ordered::start(0..count, workers, prefetch, move |number, stop| {
            own.make(first + number * every, stop)
        })?;
        Ok(Self {
            batches,
            config,
            skipped: Vec::new(),
            known: HashSet::new(),
            remaining: count,
            failed: false,
        })
    }
}

impl<T> Loader<T> {
    /// Number of batches still to come, if none is empty or an error.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// The images skipped so far, in the order of the epoch, each once. Counted from [`LoaderConfig::first_batch`] on.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// A warning of each of them.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let skipped = self.skipped.iter();
        skipped.map(|bad| format!("skipped `{}`: {}", bad.path.display(), bad.reason))
    }

    /// A training batch is empty only if no image of the whole epoch is readable. Skipping it, as in an evaluation,
    /// would give an epoch without batches, and training would loop over epochs forever.
    fn check_readable(&self, batch: &Batch<T>) -> Result<(), DataError> {
        match self.config.purpose {
            Purpose::Train { .. } if batch.is_empty() => Err(LoaderError::NothingReadable {
                path: self.config.source.root.clone(),
                images: self.config.order.len(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    fn take_skipped(&mut self, skipped: Vec<Skipped>) -> Result<(), DataError> {
        for skipped in skipped {
            // With repeats: another copy of a known image.
            if !self.known.insert(skipped.path.clone()) {
                continue;
            }
            self.skipped.push(skipped.clone());
            let (count, max) = (self.skipped.len(), self.config.max_skipped);
            if count > max {
                let last = skipped;
                return Err(LoaderError::TooManySkipped { count, max, last }.into());
            }
        }
        Ok(())
    }
}

impl<T: Send + 'static> Iterator for Loader<T> {
    type Item = Result<Batch<T>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let made = self.batches.next()?.and_then(|made| made);
            self.remaining = self.remaining.saturating_sub(1);
            let batch = made.and_then(|(batch, skipped)| {
                self.take_skipped(skipped)?;
                self.check_readable(&batch)?;
                Ok(batch)
            });
            self.failed = batch.is_err();
            // In an evaluation, all images of a batch may be unreadable: then there is nothing to deliver.
            if !matches!(&batch, Ok(batch) if batch.is_empty()) {
                return Some(batch);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
