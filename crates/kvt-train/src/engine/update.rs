//! One update of the weights, for training and for `kvt bench step`:
//! `loss -> gradients -> (sum over processes) -> norm -> clip -> optimizer -> ema`; in f16 with a scaled loss.
//!
//! The host reads loss and norm before it continues, and decides about the update: [`TrainState::update`]. Or, with a
//! [`Reader`], the device decides, and the host reads while the device works on the next update: [`TrainState::start`], then
//! [`TrainState::finish`].

mod numbers;

use burn::tensor::Tensor;
use kvt_ops::{Phase, on_pool};

pub use self::numbers::Update;
use super::Processes;
use super::reader::{Reader, Reading, read};
use super::untrained::Untrained;
use crate::data::{DataError, DeviceBatch};
use crate::error::TrainError;
use crate::recipe::{
    Accumulator, Clip, Counts, Ema, Gradients, LossScale, Optimizer, Position, Rates,
};
use crate::task::Task;

/// Everything that updates change: what a checkpoint saves.
pub struct TrainState<T: Task> {
    /// The weights.
    pub network: T::Network,
    /// The task, with its own state.
    pub task: T,
    /// The optimizer and its state.
    pub optimizer: Optimizer,
    /// The average of the weights, if one is kept.
    pub ema: Option<Ema<T::Network>>,
    /// The factor of the loss before the backward pass, if the precision needs one.
    pub loss_scale: Option<LossScale>,
}

/// The numbers of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSettings {
    /// The seed of the run, for [`Position::forward_key`].
    pub seed: u64,
    /// Learning rate and weight decay.
    pub rates: Rates,
    /// How the gradients are clipped.
    pub clip: Clip,
    /// The share of the average that is kept.
    pub ema_decay: f64,
}

/// An update that was submitted to the device.
#[derive(Debug)]
#[must_use = "an update on its way may have been refused, which `TrainState::finish` says"]
pub enum Started {
    /// The host knows the result.
    Done(Update),
    /// The device decides; [`TrainState::finish`] reads the result.
    OnItsWay(Pending),
}

/// An update whose numbers are still being read.
#[derive(Debug)]
#[must_use = "the update may have been refused, which `TrainState::finish` says"]
pub struct Pending {
    /// The losses, the norm, and the device's decision.
    reading: Reading,
    images: usize,
    before: Untrained,
    optimizer_counts: Counts,
}

/// An update that was not made. Weights, moments and counts are as before. So are the average and the untrained state of network
/// and task, unless the device refused the update: then see [`TrainState::finish`].
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The loss or the gradient is not finite.
    #[error("loss {}, gradient norm {}: not finite", .0.loss, .0.grad_norm)]
    NotFinite(Update),
    /// The device refused a finite update, because an earlier one was not finite and had not been finished first.
    #[error("the device made no update after one that was not finite")]
    Refused(Update),
    /// A micro-batch is not available, the task has no loss for it, or no parameter has a gradient: the state is as before, including
    /// what earlier micro-batches of the update changed. Or the device failed, or a process of the job.
    #[error(transparent)]
    Failed(Box<TrainError>),
}

impl From<TrainError> for UpdateError {
    fn from(error: TrainError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl<T: Task> TrainState<T> {
    /// Forward and backward passes for each micro-batch, and one step of the optimizer; the loss is the mean over all their
    /// images. `at` is the position of the first micro-batch.
    ///
    /// Each micro-batch is requested after the work on the previous one was submitted to the device, and the end of the iterator
    /// is reached before the host waits for the device.
    ///
    /// # Errors
    /// If a micro-batch is not available, the task has no loss for it, the loss is not finite, the gradient is not finite although
    /// the loss is not scaled (or no longer: a factor of 1), or the device fails. The untrained state of network and task is
    /// restored, unless the device or another process failed.
    pub fn update(
        &mut self,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        match self.start(&Processes::alone(), micro_batches, at, settings, None)? {
            Started::Done(update) => Ok(update),
            Started::OnItsWay(pending) => self.finish(pending),
        }
    }

    /// One update by all processes of a job: `micro_batches` are those of this process, every n-th of the update's, starting with
    /// its own rank. All random numbers depend on the index of the micro-batch among those of all processes, so that the number
    /// of processes does not matter.
    ///
    /// Without a reader, the update is done when this returns. With a reader, the host does not wait for the device if it need not
    /// know the result before the next update: in a single process, with an optimizer that supports the device's decision (AdamW),
    /// and without a loss scale. The device makes the update if loss and gradients are finite. If they are not, it makes neither
    /// this update nor later ones, until [`finish`](Self::finish) reports it.
    ///
    /// # Errors
    /// As [`update`](Self::update), in all processes.
    pub fn start(
        &mut self,
        processes: &Processes,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
        reader: Option<&Reader>,
    ) -> Result<Started, UpdateError> {
        let before = Untrained::of(&self.network);
        self.task.begin();
        let accumulated = self.accumulate(processes, micro_batches.into_iter(), at, settings.seed);
        let mut accumulated = match accumulated {
            Ok(accumulated) => accumulated,
            Err(error) => {
                before.restore(&self.network);
                self.task.undo();
                return Err(error.into());
            }
        };
        let images = accumulated.images;
        let image_counts = (accumulated.accumulator.images(), images);
        // Gradients are summed over the processes here, and losses by `finish_on_host`; everything else is then the same in each
        // process.
        let gradients = accumulated.accumulator.finish();
        let mut gradients = processes
            .reduce(gradients, image_counts, &self.network)?
            .ok_or(TrainError::NoGradient)?
            .unscaled(self.loss_scale.map_or(1.0, LossScale::factor));
        self.task.before_clip(&mut gradients, &self.network, at);
        let norm = gradients.norm().ok_or(TrainError::NoGradient)?;
        let share = |(loss, count): (Tensor<1>, usize)| loss * (count as f64 / images as f64);
        let losses = std::mem::take(&mut accumulated.losses).into_iter();
        let summed = Summed {
            gradients,
            numbers: Tensor::cat(losses.map(share).chain([norm]).collect(), 0),
            passes: accumulated,
            before,
        };
        match reader.filter(|_| self.may_be_late(processes)) {
            Some(reader) => self
                .finish_on_device(processes, summed, at, settings, reader)
                .map(Started::OnItsWay),
            None => self
                .finish_on_host(processes, summed, at, settings)
                .map(Started::Done),
        }
    }

    /// Forward and backward passes of this process.
    fn accumulate(
        &mut self,
        processes: &Processes,
        mut micro_batches: impl Iterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        seed: u64,
    ) -> Result<Accumulated, TrainError> {
        let mut all = Accumulated::default();
        while let Some(mut round) = processes.round(micro_batches.next())? {
            if let Some(batch) = round.batch.take() {
                let place = all.micro_batches + processes.world().rank();
                let (micro_batch_at, count) = (at.later(place), batch.len());
                let phase = Phase::Train(micro_batch_at.forward_key(seed));
                let (task, network) = (&mut self.task, &self.network);
                let device = batch.views[0].device();
                let loss =
                    round.within(&device, || task.loss(network, batch, micro_batch_at, phase))?;
                let (weighted, weight) = round.weighed(loss.clone(), count);
                let scaled = match self.loss_scale {
                    Some(scale) => weighted * scale.factor(),
                    None => weighted,
                };
                let backward = round.within(&device, || scaled.backward());
                let gradients = Gradients::take(backward, &self.network);
                all.accumulator.add(gradients, weight);
                all.losses.push((loss.inner(), count));
                all.places.push(place);
            }
            all.images += round.images();
            all.micro_batches += round.micro_batches();
            all.is_uneven |= round.is_uneven();
        }
        Ok(all)
    }

    /// The device decides whether the weights change, and the host does not wait for it.
    fn finish_on_device(
        &mut self,
        processes: &Processes,
        summed: Summed,
        at: Position,
        settings: UpdateSettings,
        reader: &Reader,
    ) -> Result<Pending, UpdateError> {
        let (gradients, max_norm) = settings.clip.apply(summed.gradients, &self.network);
        let optimizer_counts = self.optimizer.counts();
        let decision = self.optimizer.decide(summed.numbers.clone(), max_norm);
        let pending = Pending {
            // Queued ahead of the work on the weights.
            reading: reader.read(Tensor::cat(vec![summed.numbers, decision], 0))?,
            images: summed.passes.images,
            before: summed.before,
            optimizer_counts,
        };
        let network = self.network.clone();
        let optimizer = &mut self.optimizer;
        self.network = optimizer.guarded_step(network, gradients, settings.rates);
        self.after_weights(processes, at, settings)?;
        Ok(pending)
    }

    /// The host reads loss and norm, and decides whether the weights change.
    fn finish_on_host(
        &mut self,
        processes: &Processes,
        summed: Summed,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        let device = summed.numbers.device();
        // The only place where the host waits for the device.
        let (values, passes) = (read(summed.numbers), summed.passes);
        let values = processes.losses(values, &passes.places, passes.micro_batches)?;
        let update = Update::unpack(&values, passes.images);
        if !update.is_finite() {
            summed.before.restore(&self.network);
            self.task.undo();
            // A smaller scale does not help if the loss itself is not finite.
            let smaller = self.loss_scale.filter(|_| update.loss.is_finite());
            let Some(smaller) = smaller.and_then(LossScale::after_overflow) else {
                return Err(UpdateError::NotFinite(update));
            };
            self.loss_scale = Some(smaller);
            return Ok(Update {
                made: false,
                ..update
            });
        }
        if passes.is_uneven {
            // The forward passes changed this state in the first process; averages and teachers take it from the network.
            processes.share_untrained(&self.network)?;
        }
        let (mut gradients, max_norm) = settings.clip.apply(summed.gradients, &self.network);
        if let Some(max) = max_norm {
            gradients = gradients.clip_norm(update.grad_norm, max);
        }
        let (network, optimizer) = (self.network.clone(), &mut self.optimizer);
        self.network = on_pool(&device, || {
            optimizer.step(network, gradients, settings.rates)
        });
        self.after_weights(processes, at, settings)?;
        self.loss_scale = self.loss_scale.map(LossScale::after_update);
        Ok(update)
    }

    /// Waits for a pending update.
    ///
    /// # Errors
    /// If its loss or its gradient was not finite, if the device refused it because an earlier update was not finite, or if the
    /// device fails. Weights, moments, the optimizer's counts and the untrained state of the network are then as before this
    /// update, even if others were started since; the average and the task's state are not. An earlier update that was never
    /// finished stays counted.
    pub fn finish(&mut self, pending: Pending) -> Result<Update, UpdateError> {
        let numbers = pending.reading.wait()?;
        let (update, is_made) = Update::unpack_decided(&numbers, pending.images);
        if is_made && update.is_finite() {
            return Ok(update);
        }
        // If an earlier update was undone already, the network's state is from before this one, too.
        if self.optimizer.recount(&pending.optimizer_counts) {
            pending.before.restore(&self.network);
        }
        Err(if update.is_finite() {
            UpdateError::Refused(update)
        } else {
            UpdateError::NotFinite(update)
        })
    }

    /// Whether the next update may start before the host knows the result of this one.
    fn may_be_late(&self, processes: &Processes) -> bool {
        // A loss scale depends on this result, and several processes must agree on it.
        self.loss_scale.is_none()
            && processes.world().is_alone()
            && self.optimizer.supports_device_decision()
    }

    /// The work after new weights: their average, and the task's own state.
    fn after_weights(
        &mut self,
        processes: &Processes,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<(), TrainError> {
        let ema = self.ema.take();
        self.ema = ema.map(|ema| ema.update(&self.network, settings.ema_decay));
        if let Some((sum, rows)) = self.task.sums() {
            let (sum, rows) = processes.total(sum, rows)?;
            self.task.take_sums(sum, rows);
        }
        self.task.after_update(&self.network, at);
        Ok(())
    }
}

/// The results of the forward and backward passes of this process; counts are of all processes.
#[derive(Default)]
struct Accumulated {
    accumulator: Accumulator,
    /// The loss of each micro-batch of this process, and its number of images.
    losses: Vec<(Tensor<1>, usize)>,
    /// The places of these micro-batches among all.
    places: Vec<usize>,
    images: usize,
    micro_batches: usize,
    is_uneven: bool,
}

/// The gradients of all processes, and what an update needs in addition.
struct Summed {
    gradients: Gradients,
    /// The weighted losses and the norm, as [`numbers`] has them.
    numbers: Tensor<1>,
    passes: Accumulated,
    before: Untrained,
}
