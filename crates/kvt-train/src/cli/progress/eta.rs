//! How long a run will still take, by the clock alone.

use crate::engine::Workload;

/// Share of the newest update in the mean, once there are many: the last hundred or so count.
const NEWEST: f64 = 0.02;
/// Seconds of an image in an evaluation, as a share of one in training: it has the forward pass and not the backward pass.
/// Used until an evaluation was timed.
const EVALUATION: f64 = 1.0 / 3.0;

/// Times of updates and of what follows an epoch. The first update after a start is left out of the mean: it starts threads
/// and compiles kernels, and a resumed run would take it for the rule.
#[derive(Clone, Debug)]
pub(super) struct Eta {
    workload: Workload,
    /// Seconds at the last update or the last end of an epoch.
    last: Option<f64>,
    /// Updates in the mean.
    updates: u32,
    per_update: f64,
    /// Ends of epochs in the mean.
    ends: u32,
    per_end: f64,
}

impl Eta {
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            workload,
            last: None,
            updates: 0,
            per_update: 0.0,
            ends: 0,
            per_end: 0.0,
        }
    }

    /// Hears of an update, so many seconds after the start.
    pub(super) fn update(&mut self, now: f64) {
        if let Some(last) = self.last {
            self.updates += 1;
            let share = f64::from(self.updates).recip().max(NEWEST);
            self.per_update += share * (now - last - self.per_update);
        }
        self.last = Some(now);
    }

    /// Hears of the end of an epoch, after its evaluation if it had one.
    pub(super) fn epoch_end(&mut self, now: f64) {
        if let Some(last) = self.last {
            self.ends += 1;
            self.per_end += f64::from(self.ends).recip() * (now - last - self.per_end);
        }
        self.last = Some(now);
    }

    /// Seconds that are left after update `step`; `None` until two updates tell.
    pub(super) fn left(&self, step: u64) -> Option<f64> {
        let Workload {
            steps,
            steps_per_epoch,
            images_per_step,
            eval_images,
            eval_every,
            epochs,
            ..
        } = self.workload;
        if self.updates == 0 {
            return None;
        }
        let updates = steps.saturating_sub(step);
        let per_epoch = steps_per_epoch.max(1);
        // The end of the running epoch is still to come, unless this was its last update and the end was heard of.
        let ends = updates.div_ceil(per_epoch);
        let per_end = match self.ends {
            0 => {
                let per_image = self.per_update / images_per_step.max(1) as f64;
                let evaluations = match eval_every {
                    // Once, at the end.
                    0 => f64::from(epochs.max(1)).recip(),
                    every => f64::from(every).recip(),
                };
                EVALUATION * per_image * eval_images as f64 * evaluations
            }
            _ => self.per_end,
        };
        Some(updates as f64 * self.per_update + ends as f64 * per_end)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::run::Metric;

    /// 3 epochs of 10 updates of 8 images, 24 images to validate on.
    fn workload(done: u64) -> Workload {
        Workload {
            done,
            steps: 30,
            steps_per_epoch: 10,
            epochs: 3,
            images_per_step: 8,
            eval_images: 24,
            eval_every: 1,
            classes: 3,
            metrics: &[Metric::LOSS, Metric::TOP1],
            best_metric: Metric::TOP1,
            best: None,
            reported: "val",
            has_ema: false,
        }
    }

    /// What is left of a run of 2 seconds an update and 5 seconds an evaluation, which starts with an update of a minute.
    #[test]
    fn the_first_update_does_not_count_and_evaluations_do() {
        for done in [0, 10] {
            let mut eta = Eta::new(workload(done));
            eta.update(60.0);
            assert_eq!(eta.left(done + 1), None);
            eta.update(62.0);
            // An evaluation of 24 images is guessed at a third of 3 updates.
            let left = 30 - (done + 2);
            let ends = (3 - done / 10) as f64;
            assert_eq!(eta.left(done + 2), Some(2.0 * left as f64 + 2.0 * ends));
            for update in 3..=10_u32 {
                eta.update(58.0 + 2.0 * f64::from(update));
            }
            eta.epoch_end(83.0);
            let left = 30 - (done + 10);
            let expected = 2.0 * left as f64 + 5.0 * (ends - 1.0);
            let found = eta.left(done + 10).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            // The pause was no update.
            eta.update(85.0);
            assert!((eta.per_update - 2.0).abs() < 1e-9);
        }
    }

    /// A device that becomes slower is noticed within some hundred updates.
    #[test]
    fn the_rate_follows() {
        let mut eta = Eta::new(workload(0));
        let mut now = 0.0;
        for _ in 0..1000 {
            now += 1.0;
            eta.update(now);
        }
        for _ in 0..200 {
            now += 3.0;
            eta.update(now);
        }
        assert!((2.9..3.0).contains(&eta.per_update), "{}", eta.per_update);
    }
}
