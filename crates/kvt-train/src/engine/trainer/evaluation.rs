//! Evaluation during training, and the choice of the best one.

use burn::module::Module;

use super::Trainer;
use crate::engine::share::shared;
use crate::engine::{Best, TrainError};
use crate::recipe::EmaReport;
use crate::run::{EvalRecord, Topic};
use crate::task::{EvalData, Measured, Task};
use crate::world::agree;

impl<T: Task> Trainer<'_, '_, T> {
    /// Evaluates the network, and the average of its weights. Returns whether the weights named by `ema.report` are the best so
    /// far, or `None` if it was stopped meanwhile.
    pub(super) fn evaluate(&mut self) -> Result<Option<bool>, TrainError> {
        self.share_weights()?;
        let processes = self.processes.clone();
        let mut data = EvalData::new(self.plan, self.splits, self.stop, processes.world());
        let measured = self.measure(&self.state.network.valid(), &mut data);
        if processes.world().is_alone() {
            for skipped in data.skipped() {
                self.report_skipped(skipped, 0)?;
            }
        } else {
            let skipped: Vec<_> = data.skipped().flatten().cloned().collect();
            self.pass_over_in_evaluation(&skipped)?;
        }
        let Some(measured) = measured? else {
            return Ok(None);
        };
        self.check_finite(&measured)?;
        let mut evaluations = vec![(EvalRecord::VAL, measured)];
        if let Some(ema) = &self.state.ema {
            // The pass before has reported the same unreadable images.
            let mut data = EvalData::new(self.plan, self.splits, self.stop, processes.world());
            let Some(average) = self.measure(ema.network(), &mut data)? else {
                return Ok(None);
            };
            evaluations.push((EvalRecord::VAL_EMA, average));
        }
        // The reported weights come first.
        if self.plan.ema.report == EmaReport::Ema {
            evaluations.reverse();
        }
        let reported = &evaluations[0].1;
        self.check_finite(reported)?;
        let metric = T::BEST.name;
        let value = reported.metrics.get(metric);
        let value = value.ok_or(TrainError::NoMetric(metric))?;
        for (split, measured) in evaluations {
            self.report_eval(split, measured)?;
        }
        Ok(Some(self.is_best(value)))
    }

    /// Whether a value of the metric that chooses the best checkpoint is the best so far, which is remembered.
    fn is_best(&mut self, value: f64) -> bool {
        let progress = &mut self.progress;
        let best = progress.best;
        if best.is_some_and(|best| !T::BEST.improves(value, best.value)) {
            progress.stale = progress.stale.saturating_add(1);
            return false;
        }
        progress.stale = 0;
        progress.best = Some(Best {
            epoch: progress.position.epoch,
            step: Some(progress.position.step),
            value,
        });
        true
    }

    /// Whether the run [is stale](crate::engine::Progress::is_stale), and so ends.
    pub(super) fn is_stale(&self) -> bool {
        self.progress.is_stale(self.plan.train.patience)
    }

    /// Says once in a start why a stale run ends: of one that was resumed so, the session has said it.
    pub(super) fn tell_stale(&mut self) -> Result<(), TrainError> {
        if std::mem::replace(&mut self.progress.told_stale, true) {
            return Ok(());
        }
        let why = self.progress.why_stale(T::BEST.title);
        self.note(Topic::Patience, format!("finished early, {why}"))
    }

    /// Makes all processes evaluate the weights of the first one. State without gradients, such as the running statistics of a
    /// batch norm, can differ if the last update had no micro-batch for some process, and so can rounding on a device.
    pub(super) fn share_weights(&mut self) -> Result<(), TrainError> {
        let world = self.processes.world();
        if world.is_alone() {
            return Ok(());
        }
        self.state.network = shared(self.state.network.clone(), world)?;
        if let Some(ema) = self.state.ema.take() {
            self.state.ema = Some(ema.restore(|network| shared(network, world))?);
        }
        Ok(())
    }

    /// Refuses an evaluation that is not finite and so cannot be compared.
    fn check_finite(&self, measured: &Measured) -> Result<(), TrainError> {
        let not_finite = |&(_, value): &(&str, f64)| !value.is_finite();
        match measured.metrics.iter().find(not_finite) {
            Some((metric, value)) => Err(TrainError::Diverged {
                step: self.progress.position.step,
                metric: metric.to_owned(),
                value,
            }),
            None => Ok(()),
        }
    }

    /// One evaluation; `None` if it was stopped meanwhile.
    fn measure(
        &self,
        network: &T::Network,
        data: &mut EvalData<'_>,
    ) -> Result<Option<Measured>, TrainError> {
        let measured = self.state.task.evaluate(network, data, &self.device);
        if self.is_stopped()? {
            return Ok(None);
        }
        agree(self.processes.world(), measured).map(Some)
    }
}
