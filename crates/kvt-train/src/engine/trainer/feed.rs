//! The micro-batches of an epoch on their way to the device, one ahead of the work.

use std::time::Instant;

use burn::tensor::Device;

use crate::data::{DataError, DeviceBatch, Loader, Skipped};

/// A micro-batch on the device, or why there is none.
type Uploaded<T> = Result<DeviceBatch<T>, DataError>;

/// Hands out the micro-batches of an epoch, each uploaded when it is asked for. The first one of the next update is
/// uploaded while the device works at the last one of this update; host and device hold no other one.
///
/// An error, and the images that were passed over, are told with the micro-batch that they belong to, not before.
pub(super) struct Feed<T> {
    loader: Loader<T>,
    device: Device,
    ahead: Option<Uploaded<T>>,
    /// Unreadable images of the micro-batches that were handed out.
    skipped: usize,
    /// Seconds spent waiting for the loader since [`waited`](Self::waited) was asked.
    waited: f64,
}

impl<T: Send + 'static> Feed<T> {
    pub(super) fn new(loader: Loader<T>, device: Device) -> Self {
        Self {
            loader,
            device,
            ahead: None,
            skipped: 0,
            waited: 0.0,
        }
    }

    /// Whether the epoch has no more micro-batches.
    pub(super) fn is_at_end(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.fetch();
        }
        self.ahead.is_none()
    }

    /// The next `count` micro-batches, or as many as there are. After the last one the next is fetched, if `go_on`.
    pub(super) fn window(&mut self, count: usize, go_on: bool) -> Window<'_, T> {
        Window {
            feed: self,
            left: count,
            taken: 0,
            go_on,
        }
    }

    /// The unreadable images of the micro-batches that were handed out, in the order of the epoch.
    pub(super) fn skipped(&self) -> &[Skipped] {
        let all = self.loader.skipped();
        all.get(..self.skipped).unwrap_or(all)
    }

    /// The seconds spent waiting for the loader since the last call.
    pub(super) fn waited(&mut self) -> f64 {
        std::mem::take(&mut self.waited)
    }

    fn fetch(&mut self) -> Option<Uploaded<T>> {
        let start = Instant::now();
        let batch = self.loader.next();
        self.waited += start.elapsed().as_secs_f64();
        Some(batch?.map(|batch| batch.upload(&self.device)))
    }

    fn next(&mut self) -> Option<Uploaded<T>> {
        let batch = match self.ahead.take() {
            Some(batch) => batch,
            None => self.fetch()?,
        };
        // Nothing was fetched since: these are the images passed over up to this micro-batch.
        self.skipped = self.loader.skipped().len();
        Some(batch)
    }
}

/// The micro-batches of an update.
pub(super) struct Window<'a, T> {
    feed: &'a mut Feed<T>,
    left: usize,
    /// How many were handed out.
    pub(super) taken: usize,
    go_on: bool,
}

impl<T: Send + 'static> Iterator for Window<'_, T> {
    type Item = Uploaded<T>;

    fn next(&mut self) -> Option<Uploaded<T>> {
        if self.left == 0 {
            if self.go_on && self.feed.ahead.is_none() {
                self.feed.ahead = self.feed.fetch();
            }
            return None;
        }
        let batch = self.feed.next()?;
        self.left -= 1;
        self.taken += 1;
        Some(batch)
    }
}
