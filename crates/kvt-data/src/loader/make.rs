//! One batch of the loader: decoded, augmented and assembled.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use kvt_ops::Key;

use super::{LoaderConfig, Purpose, Skipped};
use crate::augment::AugmentError;
use crate::{Batch, DataError, OnError, Picture, Sample, View};

/// A batch, and the images that were skipped for it.
pub(super) struct Made<T> {
    pub(super) batch: Batch<T>,
    pub(super) skipped: Vec<Skipped>,
}

impl<T> LoaderConfig<T> {
    /// Makes one batch. Stops early with an incomplete batch if its result is no longer needed.
    pub(super) fn make(&self, number: usize, stop: &AtomicBool) -> Result<Made<T>, DataError> {
        let start = number * self.batch_size;
        let end = (start + self.batch_size).min(self.order.len());
        let views = self.views.iter();
        let mut batch = Batch {
            views: views
                .map(|transform| View::zeros(end - start, transform.size()))
                .collect(),
            targets: Vec::with_capacity(end - start),
            indices: Vec::with_capacity(end - start),
        };
        let mut skipped = Vec::new();
        for place in start..end {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let n = batch.len();
            match self.fill(place, n, &mut batch.views, &mut skipped)? {
                Some((index, target)) => {
                    batch.indices.push(index);
                    batch.targets.push(target);
                }
                // In training, this means that no image at all is readable: the next position would try them all again.
                None if self.purpose != Purpose::Evaluate => break,
                None => {}
            }
        }
        let images = batch.len();
        for view in &mut batch.views {
            view.truncate(images);
        }
        Ok(Made { batch, skipped })
    }

    /// Writes the views of one position of the order as their image `n` and returns its sample index and target, or
    /// `None` if the position stays empty.
    ///
    /// Only an unreadable image at its own position is added to `skipped`: those met while looking for a replacement
    /// are reported at their own positions, so each is counted once, whichever position meets it first.
    fn fill(
        &self,
        place: usize,
        n: usize,
        views: &mut [View],
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<(u32, T)>, DataError> {
        let mut first_bad = None;
        let mut unreadable = HashSet::new();
        // The replacement is augmented with the key of the position that it fills, so that it is not the same image twice.
        let Some((own, _)) = self.at(place) else {
            return Ok(None);
        };
        let key = image_key(self.seed, self.epoch, own);
        let key = match self.copies.get(place) {
            None | Some(0) => key,
            Some(&copy) => key.named("copy").child(copy.into()),
        };
        for step in 0..self.order.len() {
            let Some((index, sample)) = self.at((place + step) % self.order.len()) else {
                return Ok(None);
            };
            // Another copy of an image that was already tried for this position.
            if unreadable.contains(&index) {
                continue;
            }
            let look = |size| self.views.first()?.looks_at(size, key);
            let look = self.parts.then_some(&look as &dyn Fn(_) -> _);
            let error = match self.source.decode(index, self.limits, look) {
                Ok(picture) => {
                    self.augment(picture, key, n, views)
                        .map_err(|source| DataError::Augment {
                            path: sample.path.clone(),
                            source,
                        })?;
                    skipped.extend(first_bad);
                    return Ok(Some((index, (self.target)(sample))));
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
            unreadable.insert(index);
            // Beyond the limit, it is useless to continue.
            if unreadable.len() > self.max_skipped {
                return Err(too_many(unreadable.len(), self.max_skipped, bad));
            }
            first_bad.get_or_insert(bad);
            if self.purpose == Purpose::Evaluate {
                break;
            }
        }
        skipped.extend(first_bad);
        Ok(None)
    }

    /// Writes an image as image `n` of each view. The first view uses the image's own key, the others numbered children
    /// of it.
    fn augment(
        &self,
        picture: Picture,
        key: Key,
        n: usize,
        views: &mut [View],
    ) -> Result<(), AugmentError> {
        let mut all = self.views.iter().zip(views);
        let Some((first, first_view)) = all.next() else {
            return Ok(());
        };
        let image = match picture {
            Picture::Whole(image) => image,
            // Requested by the only view.
            Picture::Part(part) => return first.apply_part(&part, key, first_view.image_mut(n)),
        };
        for (number, (transform, view)) in (1..).zip(all) {
            let key = view_key(key, number);
            transform.apply(image.clone(), key, view.image_mut(n))?;
        }
        // Last, so that a single view does not need a copy of the image.
        first.apply(image, key, first_view.image_mut(n))
    }

    fn at(&self, place: usize) -> Option<(u32, &Sample)> {
        let index = *self.order.get(place)?;
        Some((index, self.source.samples.get(index as usize)?))
    }
}

/// The key of a view, counted from 0, of an image with this key.
pub fn view_key(image: Key, view: usize) -> Key {
    match view {
        0 => image,
        view => image.named("view").child(view as u64),
    }
}

/// The key of all random draws for an image in an epoch.
pub fn image_key(seed: u64, epoch: u64, index: u32) -> Key {
    Key::new(seed)
        .named("augment")
        .child(epoch)
        .child(u64::from(index))
}

pub(super) fn too_many(count: usize, max: usize, last: Skipped) -> DataError {
    DataError::TooManySkipped {
        count,
        max,
        path: last.path,
        reason: last.reason,
    }
}
