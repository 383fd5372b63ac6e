//! One update of the weights, for training and for `kvt bench step`:
//! `loss -> gradients -> (sum over processes) -> norm -> clip -> optimizer -> ema`; in f16 with a scaled loss.
//!
//! The host reads loss and norm before it goes on, and decides about the update: [`TrainState::update_with`]. Or, with a
//! [`Reader`], the device decides, and the host reads while the device works on the next update: [`TrainState::start`], then
//! [`TrainState::finish`].

use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::Processes;
use super::reader::{Reader, Reading, read};
use super::untrained::Untrained;
use crate::data::{DataError, DeviceBatch};
use crate::recipe::{
    Accumulator, Clip, Counts, Ema, Gradients, LossScale, Optimizer, Position, Rates,
};
use crate::task::Task;
use crate::world::{Failure, WorldError};

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

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The mean loss over the images.
    pub loss: f64,
    /// The global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// The number of images.
    pub images: usize,
    /// Whether it was made. It is not if a scaled loss made the gradients infinite: then weights, moments, the optimizer's count,
    /// the average and the untrained state of network and task stay as before, and the scale is halved.
    pub made: bool,
}

/// An update that was submitted to the device.
#[derive(Debug)]
#[must_use = "an update on its way may have been refused, which `TrainState::finish` tells"]
pub enum Started {
    /// The host knows the result.
    Done(Update),
    /// The device decides; [`TrainState::finish`] reads the result.
    OnItsWay(Pending),
}

/// An update whose numbers are still being read.
#[derive(Debug)]
#[must_use = "the update may have been refused, which `TrainState::finish` tells"]
pub struct Pending {
    /// The losses, the norm, and the device's decision.
    reading: Reading,
    images: usize,
    before: Untrained,
    counts: Counts,
}

/// An update that was not made. Weights, moments and counts are as before. So are the average and the untrained state of network
/// and task, unless the device refused the update: then see [`TrainState::finish`].
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A micro-batch is not available. The state is as before, including what earlier micro-batches of the update changed.
    #[error(transparent)]
    Data(DataError),
    /// The loss or the gradient is not finite.
    #[error("loss {}, gradient norm {}: not finite", .0.loss, .0.grad_norm)]
    NotFinite(Update),
    /// The device refused a finite update, because an earlier one was not finite and had not been finished first.
    #[error("the device made no update after one that was not finite")]
    Refused(Update),
    /// The loss does not depend on any parameter, or all of them were left out.
    #[error("no parameter got a gradient")]
    NoGradient,
    /// The device failed.
    #[error("the device failed: {0}")]
    Execution(String),
    /// A process of the job failed.
    #[error("{}", .0.message)]
    Job(Failure),
    /// The processes of the job lost each other.
    #[error(transparent)]
    World(#[from] WorldError),
}

impl<T: Task> TrainState<T> {
    /// Forward and backward passes for each micro-batch, and one step of the optimizer; the loss is the mean over all their
    /// images. `at` is the position of the first micro-batch.
    ///
    /// Each micro-batch is requested after the work on the previous one was submitted to the device, and the end of the iterator
    /// is reached before the host waits for the device.
    ///
    /// # Errors
    /// If a micro-batch is not available, the loss is not finite, the gradient is not finite although the loss is not scaled (or
    /// no longer: a factor of 1), or the device fails. The untrained state of network and task is restored, unless the device or
    /// another process failed.
    pub fn update(
        &mut self,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        self.update_with(&Processes::alone(), micro_batches, at, settings)
    }

    /// One update by all processes of a job: `micro_batches` are those of this process, every n-th of the update's, starting with
    /// its own rank. All random numbers depend on the index of the micro-batch among those of all processes, so that the number
    /// of processes does not matter.
    ///
    /// # Errors
    /// As [`update`](Self::update), in all processes.
    pub fn update_with(
        &mut self,
        processes: &Processes,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        match self.start(processes, micro_batches, at, settings, None)? {
            Started::Done(update) => Ok(update),
            Started::OnItsWay(pending) => self.finish(pending),
        }
    }

    /// As [`update_with`](Self::update_with). With a reader, the host does not wait for the device if it need not know the result
    /// before the next update: in a single process, with an optimizer that supports the device's decision (AdamW), and without a
    /// loss scale. The device makes the update if loss and gradients are finite. If they are not, it makes neither this update
    /// nor later ones, until [`finish`](Self::finish) reports it.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn start(
        &mut self,
        processes: &Processes,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
        reader: Option<&Reader>,
    ) -> Result<Started, UpdateError> {
        let mut micro_batches = micro_batches.into_iter();
        let mut accumulator = Accumulator::default();
        let (mut losses, mut places) = (Vec::new(), Vec::new());
        // Totals over all processes.
        let (mut images, mut done, mut is_uneven) = (0, 0, false);
        let before = Untrained::of(&self.network);
        self.task.begin();
        loop {
            let mut round = match processes.round(micro_batches.next()) {
                Ok(Some(round)) => round,
                Ok(None) => break,
                Err(error) => {
                    before.put_back(&self.network);
                    self.task.undo();
                    return Err(error);
                }
            };
            if let Some(batch) = round.batch.take() {
                let place = done + processes.world().rank();
                let (at, count) = (at.later(place), batch.len());
                let phase = Phase::Train(at.forward_key(settings.seed));
                let (task, network) = (&mut self.task, &self.network);
                let loss = round.within(|| task.loss(network, batch, at, phase));
                let (weighed, weight) = round.weighed(loss.clone(), count);
                let scaled = match self.loss_scale {
                    Some(scale) => weighed * scale.factor(),
                    None => weighed,
                };
                let backward = round.within(|| scaled.backward());
                accumulator.add(Gradients::take(backward, &self.network), weight);
                losses.push((loss.inner(), count));
                places.push(place);
            }
            images += round.images();
            done += round.micro_batches();
            is_uneven |= round.is_uneven();
        }
        let share = |(loss, count): (Tensor<1>, usize)| loss * (count as f64 / images as f64);
        let mut losses: Vec<_> = losses.into_iter().map(share).collect();
        let counts = (accumulator.images(), images);
        // Gradients are summed over the processes here, and losses below; everything else is then the same in each process.
        let gradients = processes.reduce(accumulator.finish(), counts, &self.network)?;
        let gradients = gradients.ok_or(UpdateError::NoGradient)?;
        let mut gradients = gradients.unscaled(self.loss_scale.map_or(1.0, LossScale::factor));
        self.task.before_clip(&mut gradients, &self.network, at);
        losses.push(gradients.norm().ok_or(UpdateError::NoGradient)?);
        let numbers = Tensor::cat(losses, 0);
        if let Some(reader) = reader.filter(|_| self.may_be_late(processes)) {
            let (gradients, max_norm) = settings.clip.apply_but_norm(gradients, &self.network);
            let counts = self.optimizer.counts();
            let decision = self.optimizer.decide(numbers.clone(), max_norm);
            let pending = Pending {
                // Queued ahead of the work on the weights.
                reading: reader.read(Tensor::cat(vec![numbers, decision], 0))?,
                images,
                before,
                counts,
            };
            let network = self.network.clone();
            let optimizer = &mut self.optimizer;
            self.network = optimizer.guarded_step(network, gradients, settings.rates);
            self.follow(processes, at, settings)?;
            return Ok(Started::OnItsWay(pending));
        }
        // The only place where the host waits for the device.
        let values = processes.losses(read(numbers), &places, done)?;
        let update = Update::of(&values, images);
        if !update.is_finite() {
            before.put_back(&self.network);
            self.task.undo();
            // A smaller scale does not help if the loss itself is not finite.
            let smaller = self.loss_scale.filter(|_| update.loss.is_finite());
            let Some(smaller) = smaller.and_then(LossScale::after_overflow) else {
                return Err(UpdateError::NotFinite(update));
            };
            self.loss_scale = Some(smaller);
            return Ok(Started::Done(Update {
                made: false,
                ..update
            }));
        }
        if is_uneven {
            // The forward passes changed this state in the first process; averages and teachers take it from the network.
            processes.share_untrained(&self.network)?;
        }
        let gradients = settings
            .clip
            .apply(gradients, update.grad_norm, &self.network);
        let network = self.network.clone();
        self.network = self.optimizer.step(network, gradients, settings.rates);
        self.follow(processes, at, settings)?;
        self.loss_scale = self.loss_scale.map(LossScale::after_update);
        Ok(Started::Done(update))
    }

    /// Waits for a pending update.
    ///
    /// # Errors
    /// If its loss or its gradient was not finite, if the device refused it because an earlier update was not finite, or if the
    /// device fails. Weights, moments, the optimizer's counts and the untrained state of the network are then as before this
    /// update, even if others were started since; the average and the task's state are not. An earlier update that was never
    /// finished stays counted.
    pub fn finish(&mut self, pending: Pending) -> Result<Update, UpdateError> {
        let mut numbers = pending.reading.wait()?;
        // After loss and norm come the factor and whether the update was made.
        let is_made = numbers.pop().is_some_and(|made| made > 0.0);
        numbers.pop();
        let update = Update::of(&numbers, pending.images);
        if is_made && update.is_finite() {
            return Ok(update);
        }
        // If an earlier update was undone already, the network's state is from before this one, too.
        if self.optimizer.recount(&pending.counts) {
            pending.before.put_back(&self.network);
        }
        Err(match update.is_finite() {
            true => UpdateError::Refused(update),
            false => UpdateError::NotFinite(update),
        })
    }

    /// Whether the next update may start before the host knows the result of this one.
    fn may_be_late(&self, processes: &Processes) -> bool {
        // A loss scale depends on this result, and several processes must agree on it.
        self.loss_scale.is_none() && processes.world().is_alone() && self.optimizer.heeds_guards()
    }

    /// The work after new weights: their average, and the task's own state.
    fn follow(
        &mut self,
        processes: &Processes,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<(), UpdateError> {
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

impl Update {
    /// An update of `images` images from its losses, each weighted by its share, followed by the norm.
    fn of(numbers: &[f64], images: usize) -> Self {
        let (grad_norm, losses) = match numbers.split_last() {
            Some((norm, losses)) => (*norm, losses),
            None => (f64::NAN, &[][..]),
        };
        Self {
            loss: losses.iter().sum(),
            grad_norm,
            images,
            made: true,
        }
    }

    fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.grad_norm.is_finite()
    }
}
