//! The order of the images in a training epoch: once each, or with repeated augmentation.

use super::{DataConfig, batch_count, epoch_order};

/// The positions of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochOrder {
    /// The sample at each position.
    pub samples: Vec<u32>,
    /// Which copy of its sample each position has, from 0; empty if all are the first.
    pub copies: Vec<u32>,
}

impl DataConfig {
    /// Micro-batches of `batch_size` images in a training epoch of `images` images.
    pub fn training_batches(&self, batch_size: usize, images: usize) -> usize {
        batch_count(self.places(batch_size, images), batch_size, self.drop_last)
    }

    /// The samples of a training epoch, micro-batch by micro-batch, with repeated augmentation
    /// ([Hoffer et al.](https://arxiv.org/abs/1901.09335)) as in DeiT's `RASampler` on several GPUs.
    ///
    /// The shuffled list contains each image [`repeats`](Self::repeats) times in a row, and is padded from its beginning to
    /// a multiple of [`replicas`](Self::replicas). Replica `j` takes the positions `j, j + R, j + 2R, ...`; of these, the
    /// first `floor(floor(images / 256) * 256 / R)` are used, or with fewer than 256 images `ceil(images / R)` (timm's
    /// `RepeatAugSampler`; DeiT's would use none). So an epoch has as many samples as without repeats, but only a fraction
    /// `1 / repeats` of the images. Micro-batch `m` of an epoch belongs to replica `m mod R`. With `drop_last`, the incomplete last
    /// batch of each replica is dropped. One repeat is an ordinary epoch, for any `replicas`.
    pub fn training_order(
        &self,
        batch_size: usize,
        images: usize,
        epoch: u64,
        seed: u64,
    ) -> EpochOrder {
        let samples = epoch_order(images, epoch, seed, self.shuffle);
        if self.repeats <= 1 || samples.is_empty() {
            return EpochOrder {
                samples,
                copies: Vec::new(),
            };
        }
        let places = self.repeated(batch_size, images).map(|place| {
            let list = images * self.repeats;
            let (round, place) = (place / list, place % list);
            let copy = round * self.repeats + place % self.repeats;
            // The number of copies is at most images times repeats, which is small.
            let copy = u32::try_from(copy).unwrap_or(u32::MAX);
            let sample = samples.get(place / self.repeats).copied();
            (sample.unwrap_or_default(), copy)
        });
        let (samples, copies) = places.unzip();
        EpochOrder { samples, copies }
    }

    /// Positions per replica.
    fn of_replica(&self, images: usize) -> usize {
        match images {
            ..256 => images.div_ceil(self.replicas),
            _ => images / 256 * 256 / self.replicas,
        }
    }

    /// Positions per epoch.
    fn places(&self, batch_size: usize, images: usize) -> usize {
        if self.repeats <= 1 {
            return images;
        }
        let own = self.of_replica(images);
        let whole = own / batch_size * batch_size;
        let own = if self.drop_last && whole > 0 {
            whole
        } else {
            own
        };
        own * self.replicas
    }

    /// The positions in the padded list of repeated images, divided among the replicas: whole micro-batches in turn, then
    /// the rest of each replica.
    fn repeated(&self, batch_size: usize, images: usize) -> impl Iterator<Item = usize> {
        let replicas = self.replicas;
        let own = self.places(batch_size, images) / replicas;
        let whole = own / batch_size;
        let of = move |replica: usize, places: std::ops::Range<usize>| {
            places.map(move |place| replica + place * replicas)
        };
        let batches = (0..whole * replicas).flat_map(move |batch| {
            let start = batch / replicas * batch_size;
            of(batch % replicas, start..start + batch_size)
        });
        let rest = (0..replicas).flat_map(move |replica| of(replica, whole * batch_size..own));
        batches.chain(rest)
    }
}

#[cfg(test)]
mod tests;
