//! One batch of the loader: decoded, augmented and assembled.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{LoaderConfig, LoaderError, Purpose, Skipped};
use crate::batch::Image;
use crate::prepare::Example;
use crate::{Batch, DataError, OnError, View, image_key};

/// A batch, and the images that were skipped for it.
pub(super) type Made<T> = (Batch<T>, Vec<Skipped>);

impl<T> LoaderConfig<T> {
    /// Makes one batch. Stops early with an incomplete batch if its result is no longer needed.
    pub(super) fn make(&self, number: usize, stop: &AtomicBool) -> Result<Made<T>, DataError> {
        let start = number * self.batch_size;
        let end = (start + self.batch_size).min(self.order.len());
        let mut images: Vec<Vec<Image>> = Vec::new();
        images.resize_with(self.prepare.views(), || Vec::with_capacity(end - start));
        let mut targets = Vec::with_capacity(end - start);
        let mut indices = Vec::with_capacity(end - start);
        let mut skipped = Vec::new();
        for place in start..end {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match self.fill(place, &mut skipped)? {
                Some((index, example)) => {
                    let views = images.iter_mut().zip(example.views);
                    views.for_each(|(images, view)| images.push(view));
                    indices.push(index);
                    targets.push(example.target);
                }
                // In training, this means that no image at all is readable: the next position would try them all again.
                None if self.purpose != Purpose::Evaluate => break,
                None => {}
            }
        }
        let views = images.into_iter();
        let batch = Batch {
            views: views
                .map(|images| View::stack(images, self.pad_to))
                .collect(),
            targets,
            indices,
        };
        Ok((batch, skipped))
    }

    /// Returns the sample index and the prepared image of one position of the order, or `None` if the position stays
    /// empty.
    ///
    /// Only an unreadable image at its own position is added to `skipped`: those met while looking for a replacement
    /// are reported at their own positions, so each is counted once, whichever position meets it first.
    fn fill(
        &self,
        place: usize,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<(u32, Example<T>)>, DataError> {
        let mut first_bad = None;
        let mut unreadable = HashSet::new();
        // The replacement is augmented with the key of the position that it fills, so that it is not the same image twice.
        let Some(&own) = self.order.get(place) else {
            return Ok(None);
        };
        let key = image_key(self.seed, self.epoch, own);
        let key = match self.copies.get(place) {
            None | Some(0) => key,
            Some(&copy) => key.named("copy").child(copy.into()),
        };
        for step in 0..self.order.len() {
            let Some(&index) = self.order.get((place + step) % self.order.len()) else {
                return Ok(None);
            };
            // Another copy of an image that was already tried for this position.
            if unreadable.contains(&index) {
                continue;
            }
            let bad = match self.prepare.prepare(&self.source, index, key) {
                Ok(example) => {
                    skipped.extend(first_bad);
                    return Ok(Some((index, example)));
                }
                Err(DataError::Decode(bad)) => bad,
                Err(error) => return Err(error),
            };
            if self.on_error == OnError::Fail {
                return Err(bad.into());
            }
            unreadable.insert(index);
            let (count, max) = (unreadable.len(), self.max_skipped);
            // Beyond the limit, it is useless to continue.
            if count > max {
                let last = bad;
                return Err(LoaderError::TooManySkipped { count, max, last }.into());
            }
            first_bad.get_or_insert(bad);
            if self.purpose == Purpose::Evaluate {
                break;
            }
        }
        skipped.extend(first_bad);
        Ok(None)
    }
}
