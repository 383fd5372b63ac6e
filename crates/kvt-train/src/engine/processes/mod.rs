//! The processes of a job during an update: the micro-batches of each, and sums over all of them.

mod places;
mod reduce;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use kvt_models::Network;
use kvt_ops::{Collective, Group, on_pool, with_group};

use super::share::share_untrained;
use crate::data::{DataError, DeviceBatch};
use crate::error::TrainError;
use crate::world::on_device::GradientSum;
use crate::world::{World, WorldError, agree, alone};

/// The processes of a job, and the time that this one spends communicating.
#[derive(Clone, Debug)]
pub struct Processes {
    world: Arc<dyn World>,
    /// Whether batch norms normalise by the images of all processes: `train.sync_batch_norm`.
    joint: bool,
    /// How gradients are summed.
    way: GradientSum,
    waited: Arc<AtomicU64>,
}

/// The micro-batches that the processes work on at the same time, one each.
pub(super) struct Round<T> {
    /// This process's micro-batch, if one was left for it.
    pub(super) batch: Option<DeviceBatch<T>>,
    /// The images of each process, in order of rank; processes without a micro-batch come last.
    counts: Vec<usize>,
    /// The processes that have one, if they are several.
    group: Option<Group>,
    /// Whether a layer used the group for a sum.
    is_used: Arc<AtomicBool>,
}

impl<T> Round<T> {
    /// Micro-batches of the round.
    pub(super) fn micro_batches(&self) -> usize {
        self.counts.iter().filter(|count| **count > 0).count()
    }

    /// Images of the round.
    pub(super) fn images(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Whether some process has no micro-batch. The first one always has one.
    pub(super) fn is_uneven(&self) -> bool {
        self.counts.contains(&0)
    }

    /// Runs the forward or backward pass of this process's micro-batch within the group, if there are several processes, on the thread
    /// that may communicate with them. Without them, a CPU works on it as in [`on_pool`].
    pub(super) fn within<R: Send>(&self, device: &Device, work: impl FnOnce() -> R + Send) -> R {
        match &self.group {
            Some(group) => with_group(Some(group.clone()), work),
            None => on_pool(device, work),
        }
    }

    /// The loss of a micro-batch as its gradients are computed, and the number of images with which these enter the mean.
    ///
    /// Usually that is `loss` and `count`. But where batch norms pass gradients between processes, all micro-batches must have the
    /// same weight: each enters with the size of the largest one, and the loss of a smaller one is scaled down to its share of it.
    pub(super) fn weighed(&self, loss: Tensor<1>, count: usize) -> (Tensor<1>, usize) {
        let largest = self.counts.iter().copied().max().unwrap_or(count);
        // Running statistics are also summed, but have no gradients.
        let hands_over = |group: &Group| group.is_joint() && self.is_used.load(Ordering::Relaxed);
        if self.group.as_ref().is_some_and(hands_over) && count != largest {
            (loss * (count as f64 / largest as f64), largest)
        } else {
            (loss, count)
        }
    }
}

impl Processes {
    /// A single process.
    pub fn alone() -> Self {
        Self::new(alone(), false, GradientSum::Host)
    }

    /// The processes of a world. With `joint`, batch norms normalise by the images of all of them; `way` is how gradients are summed.
    pub fn new(world: Arc<dyn World>, joint: bool, way: GradientSum) -> Self {
        Self {
            world,
            joint,
            way,
            waited: Arc::default(),
        }
    }

    /// The world of the processes.
    pub fn world(&self) -> &dyn World {
        &*self.world
    }

    /// The seconds that this process spent on sums and waited for the others since the last call.
    pub fn waited(&self) -> f64 {
        Duration::from_nanos(self.waited.swap(0, Ordering::Relaxed)).as_secs_f64()
    }

    /// The next micro-batches, with `next` for this process; `None` if no process has one left.
    pub(super) fn round<T>(
        &self,
        next: Option<Result<DeviceBatch<T>, DataError>>,
    ) -> Result<Option<Round<T>>, TrainError> {
        let own = next.transpose();
        let count = match &own {
            Ok(batch) => batch.as_ref().map_or(0, DeviceBatch::len) as f64,
            Err(_) => -1.0,
        };
        let counts = self.timed(|| self.world.gather(count))?;
        if counts.iter().any(|count| *count < 0.0) {
            let error = own.err().map_or(Ok(()), |error| Err(error.into()));
            agree(&*self.world, error)?;
            return Ok(None);
        }
        let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
        let taking_part = counts.iter().filter(|count| **count > 0).count();
        if taking_part == 0 {
            return Ok(None);
        }
        // A collective call: processes without a micro-batch take part, too.
        let members = if taking_part == self.world.size() {
            Some(Arc::clone(&self.world))
        } else {
            self.timed(|| self.world.first(taking_part))?
        };
        let is_used = Arc::new(AtomicBool::new(false));
        let group = members.filter(|world| !world.is_alone()).map(|world| {
            let members = Self {
                world,
                ..self.clone()
            };
            let used = Arc::clone(&is_used);
            Group::new(Arc::new(Sums { members, used }), self.joint)
        });
        Ok(Some(Round {
            batch: own?,
            counts,
            group,
            is_used,
        }))
    }

    /// The losses of all `count` micro-batches of an update, in order, followed by the gradient norm of the first process, so
    /// that all processes decide by the same number. `own` has the losses of this process, for the micro-batches at `places`, and
    /// the norm, or the error of reading them.
    pub(super) fn losses(
        &self,
        own: Result<Vec<f64>, TrainError>,
        places: &[usize],
        count: usize,
    ) -> Result<Vec<f64>, TrainError> {
        let own = self.timed(|| agree(&*self.world, own))?;
        let mut all = vec![0.0; count + 1];
        for (place, loss) in places.iter().zip(&own) {
            all[*place] = *loss;
        }
        if let (true, Some(norm)) = (self.world.is_first(), own.last()) {
            all[count] = *norm;
        }
        self.timed(|| self.world.sum(&mut all))?;
        Ok(all)
    }

    /// The sum over the processes of tensors of the same length, and of their rows.
    pub(super) fn total(
        &self,
        own: Tensor<1>,
        rows: usize,
    ) -> Result<(Tensor<1>, usize), TrainError> {
        if self.world.is_alone() {
            return Ok((own, rows));
        }
        let device = own.device();
        let (mut sums, mut rows) = (vec![0.0; own.dims()[0]], [rows as f64]);
        read(own, &mut sums);
        self.timed(|| {
            self.world.sum_f32(&mut sums)?;
            self.world.sum(&mut rows)
        })?;
        let [rows] = rows;
        Ok((Tensor::from_data(sums.as_slice(), &device), rows as usize))
    }

    /// Gives all processes the untrained state of the first one's network, in place.
    pub(super) fn share_untrained(&self, network: &impl Network) -> Result<(), TrainError> {
        self.timed(|| share_untrained(network, &*self.world))
    }

    /// Whether a condition holds in any process.
    pub(super) fn any(&self, own: bool) -> Result<bool, WorldError> {
        let all = self.timed(|| self.world.gather(f64::from(u8::from(own))))?;
        Ok(all.iter().any(|of_one| *of_one > 0.0))
    }

    /// Does some work that counts as communication, if there is another process.
    fn timed<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.world.is_alone() {
            return work();
        }
        let start = Instant::now();
        let result = work();
        self.note(start.elapsed());
        result
    }

    fn note(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// Copies a tensor to the host: NaN if it cannot be read, so that all processes notice.
fn read(tensor: Tensor<1>, into: &mut [f32]) {
    match tensor.try_into_vec_as::<f32>() {
        Ok(values) if values.len() == into.len() => into.copy_from_slice(&values),
        _ => into.fill(f32::NAN),
    }
}

/// The sums that layers request.
#[derive(Debug)]
struct Sums {
    members: Processes,
    used: Arc<AtomicBool>,
}

impl Collective for Sums {
    fn rank(&self) -> usize {
        self.members.world.rank()
    }

    fn size(&self) -> usize {
        self.members.world.size()
    }

    fn sum(&self, values: &mut [f32]) {
        self.used.store(true, Ordering::Relaxed);
        let members = &self.members;
        let summed = members.timed(|| members.world.sum_f32(values));
        if summed.is_err() {
            values.fill(f32::NAN);
        }
    }
}

#[cfg(test)]
mod tests;
