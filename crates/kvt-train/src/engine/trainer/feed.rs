//! Moves the micro-batches of an epoch to the device, one ahead of the work.

use std::time::Instant;

use burn::tensor::Device;

use crate::data::{DataError, DeviceBatch, Loader, Skipped};

/// A micro-batch on the device, or an error.
type Uploaded<T> = Result<DeviceBatch<T>, DataError>;

/// Yields the micro-batches of an epoch, each uploaded on request. The first one of the next update is uploaded while the device
/// works on the last one of this update; no others are held in memory.
///
/// Errors and skipped images are reported with the micro-batch that they belong to, not before.
pub(super) struct Feed<T> {
    loader: Loader<T>,
    device: Device,
    ahead: Option<Uploaded<T>>,
    /// Unreadable images of the micro-batches yielded so far.
    skipped: usize,
    /// Seconds spent waiting for the loader since the last call of [`waited`](Self::waited).
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

    /// The next `count` micro-batches, or as many as are left: those of an update. With `go_on`, the one after them is also fetched.
    pub(super) fn window(
        &mut self,
        count: usize,
        go_on: bool,
    ) -> impl Iterator<Item = Uploaded<T>> {
        let mut left = count;
        std::iter::from_fn(move || {
            if left == 0 {
                if go_on && self.ahead.is_none() {
                    self.ahead = self.fetch();
                }
                return None;
            }
            let batch = self.next()?;
            left -= 1;
            Some(batch)
        })
    }

    /// The unreadable images of the micro-batches yielded so far, in the order of the epoch.
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
        // Nothing was fetched since, so these are the images skipped up to this micro-batch.
        self.skipped = self.loader.skipped().len();
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use image::{Rgb, RgbImage};

    use super::*;
    use crate::augment::{AugmentConfig, Preset, Transform};
    use crate::data::{
        ClassOrder, ImageLimits, LoaderConfig, OnError, Purpose, Source, Views, epoch_order,
    };

    /// Five micro-batches of two images, in order; image 5 is unreadable.
    fn feed(on_error: OnError) -> (tempfile::TempDir, Feed<u32>) {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..10 {
            let class = dir.path().join(if index < 5 { "a" } else { "b" });
            fs_err::create_dir_all(&class).unwrap();
            let path = class.join(format!("{index}.png"));
            RgbImage::from_pixel(4, 4, Rgb([index; 3]))
                .save(&path)
                .unwrap();
        }
        fs_err::write(dir.path().join("b/5.png"), b"no image").unwrap();
        let augment = AugmentConfig {
            preset: Preset::None,
            ..AugmentConfig::default()
        };
        let loader = Loader::start(LoaderConfig {
            source: Arc::new(Source::open(dir.path(), ClassOrder::Byte).unwrap()),
            prepare: Arc::new(Views {
                transforms: vec![Arc::new(Transform::train(&augment, (4, 4)).unwrap())],
                target: |sample| sample.label,
                limits: ImageLimits::default(),
                parts: false,
            }),
            pad_to: 1,
            order: epoch_order(10, 0, 0, false),
            copies: Vec::new(),
            batch_size: 2,
            purpose: Purpose::Train { drop_last: true },
            first_batch: 0,
            every: 1,
            workers: 0,
            prefetch: 0,
            epoch: 0,
            seed: 0,
            on_error,
            max_skipped: 5,
        });
        (dir, Feed::new(loader.unwrap(), Device::flex()))
    }

    fn indices(batches: Vec<Uploaded<u32>>) -> Vec<Vec<u32>> {
        let batches = batches.into_iter();
        batches.map(|batch| batch.unwrap().indices).collect()
    }

    #[test]
    fn an_unreadable_image_is_told_with_its_own_micro_batch() {
        let (_dir, mut feed) = feed(OnError::Skip);
        let found = feed.window(2, true).collect();
        assert_eq!(indices(found), [[0, 1], [2, 3]]);
        // The third was fetched, with its unreadable image, but not yielded.
        assert_eq!((feed.loader.remaining(), feed.skipped().len()), (2, 0));
        let found = feed.window(2, false).collect();
        assert_eq!(indices(found), [[4, 6], [6, 7]]);
        assert_eq!(feed.skipped().len(), 1);
        // Nothing was fetched after the last one requested.
        assert_eq!(feed.loader.remaining(), 1);
        assert_eq!(indices(feed.window(9, true).collect()), [[8, 9]]);
        assert!(feed.next().is_none());
    }

    #[test]
    fn an_error_is_that_of_its_own_micro_batch() {
        let (_dir, mut feed) = feed(OnError::Fail);
        let found = feed.window(2, true).collect();
        assert_eq!(indices(found), [[0, 1], [2, 3]]);
        let found = feed.window(2, true).next();
        assert!(matches!(found, Some(Err(DataError::Decode(_)))));
        assert!(feed.next().is_none());
    }
}
