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
        if self.processes.world().is_alone() {
            return self.report_skipped(skipped, known);
        }
        let known_by_all = self.skipped.len();
        let mut new = self.tell_skipped(skipped.get(known..).unwrap_or_default())?;
        let paths = self.skipped.iter().map(|image| image.path.clone());
        let mut told: HashSet<_> = paths.collect();
        // With `data.repeats`, several processes may meet the same image at once.
        new.retain(|image| told.insert(image.path.clone()));
        self.skipped.extend(new);
        let all = std::mem::take(&mut self.skipped);
        let reported = self.report_skipped(&all, known_by_all);
        self.skipped = all;
        reported
    }

    /// The unreadable images of an evaluation, as in [`pass_over`](Self::pass_over).
    pub(super) fn pass_over_in_evaluation(
        &mut self,
        skipped: &[Skipped],
    ) -> Result<(), TrainError> {
        let mut seen = HashSet::new();
        let mut all = self.tell_skipped(skipped)?;
        // A task may let each process see all images.
        all.retain(|image| seen.insert(image.path.clone()));
        self.report_skipped(&all, 0)?;
        self.refuse_more(&all)
    }

    /// The unreadable images of all processes.
    fn tell_skipped(&self, own: &[Skipped]) -> Result<Vec<Skipped>, TrainError> {
        let words = |image: &Skipped| (image.path.display().to_string(), image.reason.clone());
        let own: Vec<(String, String)> = own.iter().map(words).collect();
        let all = self.processes.world().collect(&own)?.into_iter();
        let image = |(path, reason): (String, String)| Skipped {
            path: path.into(),
            reason,
        };
        Ok(all.map(image).collect())
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
