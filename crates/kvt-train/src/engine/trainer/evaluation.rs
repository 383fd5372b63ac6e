//! How far training has come: evaluation, and which one is the best.

use burn::module::Module;

use super::Trainer;
use crate::engine::{Best, TrainError};
use crate::run::EvalRecord;
use crate::task::{EvalData, Measured, Task};

impl<T: Task> Trainer<'_, '_, T> {
    /// Evaluates the network, and the average of its weights; whether the network itself is the best so far. `None` if it
    /// was asked to stop within.
    pub(super) fn evaluate(&mut self) -> Result<Option<bool>, TrainError> {
        let position = self.progress.position;
        let mut data = EvalData::new(self.plan, self.splits, self.stop);
        let measured = self.measure(&self.state.network.valid(), &mut data);
        for skipped in data.skipped() {
            self.report_skipped(skipped, 0)?;
        }
        let Some(measured) = measured? else {
            return Ok(None);
        };
        let not_finite = |&(_, value): &(&str, f64)| !value.is_finite();
        if let Some((metric, value)) = measured.metrics.iter().find(not_finite) {
            return Err(TrainError::Diverged {
                step: position.step,
                metric: metric.to_owned(),
                value,
            });
        }
        let average = match &self.state.ema {
            Some(ema) => {
                // The unreadable images are those of the pass before, where they were reported.
                let mut data = EvalData::new(self.plan, self.splits, self.stop);
                match self.measure(ema.network(), &mut data)? {
                    Some(average) => Some(average),
                    None => return Ok(None),
                }
            }
            None => None,
        };
        let metric = T::BEST.name;
        let value = measured.metrics.get(metric);
        let value = value.ok_or(TrainError::NoMetric { metric })?;
        self.report_eval(EvalRecord::VAL, measured)?;
        if let Some(average) = average {
            self.report_eval(EvalRecord::VAL_EMA, average)?;
        }
        let best = self.progress.best;
        if best.is_some_and(|best| !T::BEST.improves(value, best.value)) {
            return Ok(Some(false));
        }
        self.progress.best = Some(Best {
            epoch: position.epoch,
            step: Some(position.step),
            value,
        });
        Ok(Some(true))
    }

    /// One evaluation; `None` if it was asked to stop within.
    fn measure(
        &self,
        network: &T::Network,
        data: &mut EvalData<'_>,
    ) -> Result<Option<Measured>, TrainError> {
        let measured = self.state.task.evaluate(network, data, &self.device);
        if self.is_stopped() {
            return Ok(None);
        }
        measured.map(Some)
    }
}
