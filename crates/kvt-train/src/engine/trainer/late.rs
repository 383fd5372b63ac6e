//! The update that the device works on while the host continues: its numbers are read one update later.
//!
//! Code that needs the state of the run settles first: nothing is saved, evaluated or finished while an update is pending. So a
//! checkpoint is the same as if the host had waited.

use std::time::Instant;

use super::{Trainer, due};
use crate::engine::reader::{Reading, read};
use crate::engine::{LogSums, Reader, Started, TrainError};
use crate::recipe::Position;
use crate::task::{Signals, Task, Tell, Unread};

/// The reader of a run, and the pending update.
#[derive(Default)]
pub struct Late {
    /// Reads the numbers of an update; without a reader the host waits for each update.
    pub(super) reader: Option<Reader>,
    /// Reads the task's signals of an update, which the device computes after loss and norm, so on another thread.
    signals: Option<Reader>,
    pub(super) step: Option<Step>,
    /// The end of the last settlement: an update takes from there to the end of its own settlement, whether the host waits for
    /// the device or works beside it.
    since: Option<Instant>,
}

/// A started update, with everything to be reported about it.
pub(super) struct Step {
    pub(super) started: Started,
    /// The positions before and after it.
    pub(super) before: Position,
    pub(super) after: Position,
    /// The number of its micro-batches.
    pub(super) count: usize,
    pub(super) lr: f64,
    /// Seconds of waiting for data, and of communication.
    pub(super) data_wait: f64,
    pub(super) communication: f64,
    /// The task's signals, if a line of the log is due.
    pub(super) signals: Option<Told>,
}

/// The numbers of the task's signals of an update, and what interprets them.
pub(super) type Told = (Reading, Tell);

impl Late {
    /// With this reader, if there is one.
    pub fn by(reader: Option<Reader>) -> Self {
        Self {
            reader,
            ..Self::default()
        }
    }

    /// Time from now on counts for the next update; earlier time counts for none.
    pub(super) fn restart_clock(&mut self) {
        self.since = Some(Instant::now());
    }

    /// The seconds since the last settlement; a settlement ends now.
    fn lap(&mut self, now: Instant) -> f64 {
        let since = self.since.replace(now).unwrap_or(now);
        (now - since).as_secs_f64()
    }
}

impl<T: Task> Trainer<'_, '_, T> {
    /// The task's signals of the update that was just started, if a line of the log is due. They are read here if the update
    /// `is_known`.
    pub(super) fn signals(&mut self, is_known: bool) -> Result<Option<Told>, TrainError> {
        let position = self.progress.position;
        if !due(position.step, self.plan.log.every_steps) {
            return Ok(None);
        }
        let Some(Unread { numbers, tell }) = self.state.task.signals(position) else {
            let none: Tell = Box::new(|_| Signals::default());
            return Ok(Some((Reading::known(Vec::new()), none)));
        };
        if !is_known && self.late.signals.is_none() {
            self.late.signals = Reader::start();
        }
        let numbers = match self.late.signals.as_ref().filter(|_| !is_known) {
            Some(reader) => reader.read(numbers)?,
            None => Reading::known(read(numbers)?),
        };
        Ok(Some((numbers, tell)))
    }

    /// Waits for the pending update, if there is one, adds it to the sums and reports it.
    ///
    /// If it was not finite, the position is reset to before it, as the weights are.
    pub(super) fn settle(&mut self) -> Result<(), TrainError> {
        let Some(step) = self.late.step.take() else {
            return Ok(());
        };
        let finished = match step.started {
            Started::Done(update) => Ok(update),
            Started::OnItsWay(pending) => self.state.finish(pending),
        };
        let told = |(numbers, tell): Told| Ok::<_, TrainError>(tell(&numbers.wait()?));
        let settled = finished.and_then(|update| Ok((update, step.signals.map(told).transpose()?)));
        let (update, signals) = match settled {
            Ok(settled) => settled,
            Err(error) => {
                self.progress.position = step.before;
                return Err(self.failed(error, step.count));
            }
        };
        let one = LogSums {
            updates: 1,
            unmade: u64::from(!update.made),
            loss: update.loss,
            grad_norm: if update.made { update.grad_norm } else { 0.0 },
            images: update.images as u64,
            seconds: self.late.lap(Instant::now()),
            data_wait: step.data_wait,
            communication: step.communication,
        };
        let sums = &mut self.progress.sums;
        sums.loss += update.loss * update.images as f64;
        sums.images += one.images;
        sums.seconds += one.seconds;
        sums.data_wait += one.data_wait;
        sums.communication += one.communication;
        sums.lr = step.lr;
        self.report_step(&update, step.after, step.lr, one, signals)?;
        self.report_unmade(&update, step.after)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An update takes from the end of the one before it to its own end; time before a restart of the clock does not count.
    #[test]
    fn a_lap_begins_where_the_last_one_ended() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut late = Late::default();
        // Without a starting time, the first lap is 0.
        assert_eq!(late.lap(after(2)), 0.0);
        assert_eq!(late.lap(after(5)), 3.0);
        late.since = Some(after(60));
        assert_eq!(late.lap(after(61)), 1.0);
        assert_eq!(late.lap(after(63)), 2.0);
    }
}
