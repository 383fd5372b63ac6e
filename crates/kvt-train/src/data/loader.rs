//! Batches of decoded, augmented images, made by worker threads and delivered in the order of the epoch.
//!
//! A batch depends on its place in the order and on the keys of its samples only: any number of workers gives the same
//! epoch, and starting at batch `n` gives what a full epoch gives from batch `n` on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::augment::Transform;
use crate::data::ordered::Ordered;
use crate::data::{DataError, ImageFolder, ImageLimits, OnError, Sample, batch_count, decode};
use kvt_ops::Key;

/// What the batches are for, which decides about incomplete batches and unreadable images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Batches keep their size: an unreadable image is replaced by the next readable one of the order.
    Train {
        /// Drop the incomplete last batch, unless it is the only one.
        drop_last: bool,
    },
    /// Every readable image exactly once: an unreadable one is left out, its batch is smaller.
    Evaluate,
}

/// What [`Loader::start`] needs to know.
#[derive(Debug, Clone)]
pub struct LoaderConfig {
    /// The labelled images.
    pub source: Arc<ImageFolder>,
    /// What is done to each decoded image.
    pub transform: Arc<Transform>,
    /// Sample indices in the order of the epoch, see [`epoch_order`](crate::data::epoch_order).
    pub order: Vec<u32>,
    /// Images per batch.
    pub batch_size: usize,
    /// Training or evaluation.
    pub purpose: Purpose,
    /// The first batch to deliver, to go on in the middle of an epoch.
    pub first_batch: usize,
    /// Threads; 0 decodes on the calling thread.
    pub workers: usize,
    /// Finished batches that may wait, beside the one that each worker makes.
    pub prefetch: usize,
    /// The epoch, for the keys of the augmentation.
    pub epoch: u64,
    /// The seed of the run, for the keys of the augmentation.
    pub seed: u64,
    /// What an unreadable image does; one that is skipped is passed over as [`Purpose`] says.
    pub on_error: OnError,
    /// The most unreadable images of an epoch that are skipped; one more is an error.
    pub max_skipped: usize,
    /// Beyond them an image is unreadable.
    pub limits: ImageLimits,
}

/// A batch on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Normalised pixels, `[n, 3, height, width]`.
    pub images: Vec<f32>,
    /// Class of each image, `[n]`.
    pub labels: Vec<u32>,
    /// Index of each image in [`ImageFolder::samples`], `[n]`.
    pub indices: Vec<u32>,
    /// Height and width of each image, in pixels.
    pub size: (usize, usize),
}

/// An image that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why it is unreadable.
    pub reason: String,
}

/// The batches of one epoch. Ends after the last batch or the first error; dropping it stops the workers.
pub struct Loader {
    batches: Ordered<Result<Made, DataError>>,
    /// The folder and the images of the epoch.
    source: (PathBuf, usize),
    purpose: Purpose,
    max_skipped: usize,
    skipped: Vec<Skipped>,
    remaining: usize,
    failed: bool,
}

struct Made {
    batch: Batch,
    skipped: Vec<Skipped>,
}

impl Loader {
    /// Starts the workers on the epoch.
    ///
    /// # Errors
    ///
    /// A batch size of 0, an order that names samples the source does not have, or a thread that does not start.
    pub fn start(config: LoaderConfig) -> Result<Self, DataError> {
        if config.batch_size == 0 {
            return Err(DataError::EmptyBatch);
        }
        let len = config.source.samples.len();
        if let Some(&index) = config.order.iter().find(|&&i| i as usize >= len) {
            let path = config.source.root.clone();
            return Err(DataError::NoSuchSample { index, len, path });
        }
        let drop_last = config.purpose == Purpose::Train { drop_last: true };
        let end = batch_count(config.order.len(), config.batch_size, drop_last);
        let first = config.first_batch.min(end);
        let (workers, prefetch) = (config.workers, config.prefetch);
        let max_skipped = config.max_skipped;
        let source = (config.source.root.clone(), config.order.len());
        let purpose = config.purpose;
        let batches = Ordered::start(first..end, workers, prefetch, move |number, stop| {
            config.make(number, stop)
        })?;
        Ok(Self {
            batches,
            source,
            purpose,
            max_skipped,
            skipped: Vec::new(),
            remaining: end - first,
            failed: false,
        })
    }

    /// Batches still to come, if none is empty or an error.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// The images passed over so far, in the order of the epoch, each once. Counted from
    /// [`LoaderConfig::first_batch`] on.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// A training batch is empty only if no image of the whole epoch is readable. Passing over it, as in an evaluation,
    /// would make an epoch without batches, and training would go from one to the next without end.
    fn check_readable(&self, batch: &Batch) -> Result<(), DataError> {
        match self.purpose {
            Purpose::Train { .. } if batch.labels.is_empty() => Err(DataError::NothingReadable {
                path: self.source.0.clone(),
                images: self.source.1,
            }),
            _ => Ok(()),
        }
    }

    fn take_skipped(&mut self, skipped: Vec<Skipped>) -> Result<(), DataError> {
        for skipped in skipped {
            self.skipped.push(skipped.clone());
            if self.skipped.len() > self.max_skipped {
                return Err(too_many(self.skipped.len(), self.max_skipped, skipped));
            }
        }
        Ok(())
    }
}

impl Iterator for Loader {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let made = self.batches.next()?.and_then(|made| made);
            self.remaining = self.remaining.saturating_sub(1);
            let batch = made.and_then(|made| {
                self.take_skipped(made.skipped)?;
                self.check_readable(&made.batch)?;
                Ok(made.batch)
            });
            self.failed = batch.is_err();
            // In an evaluation all images of a batch may be unreadable: there is nothing to deliver.
            if !matches!(&batch, Ok(batch) if batch.labels.is_empty()) {
                return Some(batch);
            }
        }
        None
    }
}

impl LoaderConfig {
    /// Makes one batch. Stops early, with what it has, once nobody waits for it.
    fn make(&self, number: usize, stop: &AtomicBool) -> Result<Made, DataError> {
        let size = self.transform.size();
        let start = number * self.batch_size;
        let end = (start + self.batch_size).min(self.order.len());
        let pixels = 3 * size.0 * size.1;
        let mut images = vec![0.0; (end - start) * pixels];
        let mut labels = Vec::with_capacity(end - start);
        let mut indices = Vec::with_capacity(end - start);
        let mut skipped = Vec::new();
        for place in start..end {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let done = labels.len() * pixels;
            let out = images.get_mut(done..done + pixels).unwrap_or_default();
            match self.fill(place, out, &mut skipped)? {
                Some((index, label)) => {
                    indices.push(index);
                    labels.push(label);
                }
                // In training no image at all is readable: the next place would try them all again.
                None if self.purpose != Purpose::Evaluate => break,
                None => {}
            }
        }
        images.truncate(labels.len() * pixels);
        let batch = Batch {
            images,
            labels,
            indices,
            size,
        };
        Ok(Made { batch, skipped })
    }

    /// Writes the image of one place of the order and returns its sample index and label, or `None` if the place
    /// stays empty.
    ///
    /// Only an unreadable image in its own place is added to `skipped`: those met while looking for a replacement
    /// are reported from their own places, so each is counted once whoever meets it first.
    fn fill(
        &self,
        place: usize,
        out: &mut [f32],
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<(u32, u32)>, DataError> {
        let mut first_bad = None;
        // The replacement is augmented with the key of the place that it fills, so that it does not repeat its own picture.
        let Some((own, _)) = self.at(place) else {
            return Ok(None);
        };
        let key = Key::new(self.seed)
            .named("augment")
            .child(self.epoch)
            .child(u64::from(own));
        for step in 0..self.order.len() {
            let Some((index, sample)) = self.at((place + step) % self.order.len()) else {
                return Ok(None);
            };
            let error = match decode(&sample.path, self.limits) {
                Ok(image) => {
                    self.transform
                        .apply(image, key, out)
                        .map_err(|source| DataError::Augment {
                            path: sample.path.clone(),
                            source,
                        })?;
                    skipped.extend(first_bad);
                    return Ok(Some((index, sample.label)));
                }
                Err(error) => error,
            };
            if self.on_error == OnError::Fail {
                return Err(error.into());
            }
            let bad = Skipped {
                path: error.path,
                reason: error.reason,
            };
            // `step + 1` different images are unreadable: past the cap there is no use in looking further.
            if step + 1 > self.max_skipped {
                return Err(too_many(step + 1, self.max_skipped, bad));
            }
            first_bad.get_or_insert(bad);
            if self.purpose == Purpose::Evaluate {
                break;
            }
        }
        skipped.extend(first_bad);
        Ok(None)
    }

    fn at(&self, place: usize) -> Option<(u32, &Sample)> {
        let index = *self.order.get(place)?;
        Some((index, self.source.samples.get(index as usize)?))
    }
}

fn too_many(count: usize, max: usize, last: Skipped) -> DataError {
    DataError::TooManySkipped {
        count,
        max,
        path: last.path,
        reason: last.reason,
    }
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
