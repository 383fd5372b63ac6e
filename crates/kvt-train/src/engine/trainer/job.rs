//! The loop as one of several processes.

use std::collections::HashSet;

use super::Trainer;
use crate::data::{DataError, Loader, LoaderError, Skipped};
use crate::engine::TrainError;
use crate::task::Task;
use crate::world::Failure;

impl<T: Task> Trainer<'_, '_, T> {
    /// The micro-batches of the running epoch from the current position on: the share of the process of a rank, every n-th of n
    /// processes.
    pub(super) fn batches(
        &self,
        rank: usize,
        processes: usize,
    ) -> Result<Loader<T::Target>, TrainError> {
        let position = self.progress.position;
        let (epoch, batch) = (position.epoch, position.batch);
        let prepare = T::prepare(self.plan, self.splits)?;
        let mut loading = self.splits.train_loading(self.plan, prepare, epoch, batch);
        loading.first_batch += rank;
        loading.every = processes;
        Ok(Loader::start(loading)?)
    }

    /// Logs the unreadable images of an epoch: this process's after the first `known`, and new ones of the other processes.
    pub(super) fn pass_over(
        &mut self,
        skipped: &[Skipped],
        known: usize,
    ) -> Result<(), TrainError> {
        let own = skipped.get(known..).unwrap_or_default();
        if self.processes.world().is_alone() {
            return self.report_skipped(own, known);
        }
        let known_by_all = self.skipped.len();
        let new = self.tell_skipped(own, &self.skipped)?;
        self.report_skipped(&new, known_by_all)?;
        self.skipped.extend(new);
        Ok(())
    }

    /// The unreadable images of an evaluation, as in [`pass_over`](Self::pass_over).
    pub(super) fn pass_over_in_evaluation(
        &mut self,
        skipped: &[Skipped],
    ) -> Result<(), TrainError> {
        let all = self.tell_skipped(skipped, &[])?;
        self.report_skipped(&all, 0)?;
        self.refuse_more(&all)
    }

    /// The unreadable images of all processes, each once and without the known ones: several processes may meet the same image, with
    /// `data.repeats` at once, and in an evaluation where a task lets each of them see all images.
    fn tell_skipped(&self, own: &[Skipped], known: &[Skipped]) -> Result<Vec<Skipped>, TrainError> {
        let words = |image: &Skipped| (image.path.display().to_string(), image.reason.clone());
        let own: Vec<(String, String)> = own.iter().map(words).collect();
        let all = self.processes.world().collect(&own)?.into_iter();
        let image = |(path, reason): (String, String)| Skipped {
            path: path.into(),
            reason,
        };
        let mut told: HashSet<_> = known.iter().map(|image| image.path.clone()).collect();
        let new = all.map(image);
        let new = new.filter(|image| told.insert(image.path.clone()));
        Ok(new.collect())
    }

    /// An error in all processes if they skipped too many images in total: the limit of a loader, applied to all.
    pub(super) fn refuse_more(&self, all: &[Skipped]) -> Result<(), TrainError> {
        let max = self.plan.data.max_skipped;
        match all.last() {
            Some(last) if all.len() > max => {
                let error = TrainError::from(DataError::from(LoaderError::TooManySkipped {
                    count: all.len(),
                    max,
                    last: last.clone(),
                }));
                Err(TrainError::Job(Failure::common(&error)))
            }
            _ => Ok(()),
        }
    }
}
