//! Estimates the remaining time of a run from measured times.

use super::Workload;
use crate::run::Event;

/// Weight of the newest update in the mean, once there are many: about the last hundred count.
const NEWEST: f64 = 0.02;
/// Seconds per image in an evaluation as a fraction of those in training: it has a forward pass but no backward pass. Used until
/// an evaluation has been timed.
const EVALUATION: f64 = 1.0 / 3.0;

/// Times of updates, and of the work after an epoch, separately for epochs with and without an evaluation. The first update after
/// a start is left out of the mean: it starts threads and compiles kernels, which would distort the estimate of a resumed run.
#[derive(Clone, Debug)]
pub struct Eta {
    workload: Workload,
    /// Seconds at the last update or the last end of an epoch.
    last: Option<f64>,
    per_update: Mean,
    /// The work after an epoch with an evaluation.
    evaluated: Mean,
    /// The work after another epoch: logging, and a checkpoint where one is due.
    plain: Mean,
    /// Seconds of an evaluation within the epoch since the last update.
    within: f64,
    /// Number of epochs whose end was recorded, so also the first epoch that has yet to end.
    ended: u64,
}

/// A mean of seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u32,
    seconds: f64,
}

impl Mean {
    /// Adds a value with a weight of at least `least`.
    fn add(&mut self, seconds: f64, least: f64) {
        self.count += 1;
        let share = f64::from(self.count).recip().max(least);
        self.seconds += share * (seconds - self.seconds);
    }
}

impl Eta {
    /// The estimate of a run before its first update.
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        Self {
            workload,
            last: None,
            per_update: Mean::default(),
            evaluated: Mean::default(),
            plain: Mean::default(),
            within: 0.0,
            ended: 0,
        }
    }

    /// Records what takes time beside updates, `now` seconds after the start.
    pub fn event(&mut self, event: &Event, now: f64) {
        match event {
            Event::Eval(eval) => self.evaluation(eval.step, now),
            Event::Epoch(epoch) => self.epoch_end(epoch.epoch, now),
            Event::Step(_) | Event::Layer(_) | Event::Note(_) => {}
        }
    }

    /// Records an evaluation of one kind of weights within an epoch, after update `step`; those at the end of an epoch are part of
    /// [`epoch_end`](Self::epoch_end).
    fn evaluation(&mut self, step: u64, now: f64) {
        if step.is_multiple_of(self.workload.steps_per_epoch.max(1)) {
            return;
        }
        self.within += self.last.map_or(0.0, |last| now - last);
        self.last = Some(now);
    }

    /// Records an update at `now` seconds after the start.
    pub fn update(&mut self, now: f64) {
        let evaluated = std::mem::take(&mut self.within);
        if evaluated > 0.0 {
            self.evaluated.add(evaluated, 0.0);
        }
        if let Some(last) = self.last {
            self.per_update.add(now - last, NEWEST);
        }
        self.last = Some(now);
    }

    /// Records the end of an epoch, counted from 0, after its evaluation if it had one.
    fn epoch_end(&mut self, epoch: u32, now: f64) {
        let epoch = u64::from(epoch);
        if let Some(last) = self.last {
            let mean = match self.evaluations(epoch, epoch + 1) {
                0 => &mut self.plain,
                _ => &mut self.evaluated,
            };
            mean.add(now - last, 0.0);
        }
        self.last = Some(now);
        self.ended = epoch + 1;
    }

    /// Remaining seconds after update `step`; `None` before two updates were timed.
    #[must_use]
    pub fn left(&self, step: u64) -> Option<f64> {
        if self.per_update.count == 0 {
            return None;
        }
        let per_update = self.per_update.seconds;
        let updates = self.workload.steps.saturating_sub(step);
        // The epoch of this update has yet to end, unless its end was recorded.
        let running = step.saturating_sub(1) / self.workload.steps_per_epoch.max(1);
        let (from, to) = (running.max(self.ended), self.epochs());
        let evaluations = self.evaluations(from, to);
        let others = to.saturating_sub(from) - evaluations;
        let evaluation = match self.evaluated.count {
            0 => {
                let workload = &self.workload;
                let per_image = per_update / workload.images_per_step.max(1) as f64;
                let passes = 1.0 + f64::from(u8::from(workload.has_ema));
                EVALUATION * per_image * workload.eval_images as f64 * passes
            }
            _ => self.evaluated.seconds,
        };
        let ends = evaluations as f64 * evaluation + others as f64 * self.plain.seconds;
        Some(updates as f64 * per_update + ends + self.within(step, evaluation))
    }

    /// Number of epochs with updates; `train.max_steps` may end the last one early.
    fn epochs(&self) -> u64 {
        let per_epoch = self.workload.steps_per_epoch.max(1);
        self.workload.steps.div_ceil(per_epoch)
    }

    /// Seconds of the evaluations after update `step` within epochs (`train.eval_every_updates`), each as long as `evaluation`.
    fn within(&self, step: u64, evaluation: f64) -> f64 {
        let every = self.workload.eval_every_updates;
        let due = |steps: u64| steps.checked_div(every).unwrap_or(0);
        due(self.workload.steps).saturating_sub(due(step)) as f64 * evaluation
    }

    /// Number of evaluations after the epochs in `from..to`: those that `train.eval_every` asks for, and the one after the very
    /// last epoch, unless it is one of [`within`](Self::within).
    fn evaluations(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let every = u64::from(self.workload.eval_every);
        let due = |epochs: u64| epochs.checked_div(every).unwrap_or(0);
        let within = self.workload.eval_every_updates;
        let counted = within > 0 && self.workload.steps.is_multiple_of(within);
        let last = to == self.epochs() && (every == 0 || !to.is_multiple_of(every)) && !counted;
        due(to) - due(from) + u64::from(last)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::run::Metric;

    /// 3 epochs of 10 updates of 8 images, with 24 validation images.
    fn workload(done: u64) -> Workload {
        Workload {
            done,
            steps: 30,
            steps_per_epoch: 10,
            epochs: 3,
            images_per_step: 8,
            eval_images: 24,
            eval_every: 1,
            eval_every_updates: 0,
            classes: 3,
            metrics: &[Metric::LOSS, Metric::TOP1],
            best_metric: Metric::TOP1,
            best: None,
            reported: "val",
            has_ema: false,
        }
    }

    /// 30 updates of 2 seconds; evaluations of 7 seconds after the updates 15 and 30.
    #[test]
    fn evaluations_within_an_epoch_are_timed_and_counted_once() {
        let mut eta = Eta::new(Workload {
            eval_every: 0,
            eval_every_updates: 15,
            ..workload(0)
        });
        for update in 0..15_u32 {
            eta.update(60.0 + f64::from(update) * 2.0);
        }
        // Not known yet: a third of 3 updates each.
        assert_eq!(eta.left(15), Some(30.0 + 2.0));
        let now = 60.0 + 28.0 + 7.0;
        eta.evaluation(15, now);
        eta.update(now + 2.0);
        assert_eq!(eta.left(16), Some(28.0 + 7.0));
    }

    /// A run with 2 seconds per update and 5 seconds per evaluation, which starts with an update of one minute.
    #[test]
    fn the_first_update_does_not_count_and_evaluations_do() {
        for done in [0, 10] {
            let mut eta = Eta::new(workload(done));
            eta.update(60.0);
            assert_eq!(eta.left(done + 1), None);
            eta.update(62.0);
            // An evaluation of 24 images is estimated as a third of 3 updates.
            let left = 30 - (done + 2);
            let ends = (3 - done / 10) as f64;
            assert_eq!(eta.left(done + 2), Some(2.0 * left as f64 + 2.0 * ends));
            for update in 3..=10_u32 {
                eta.update(58.0 + 2.0 * f64::from(update));
            }
            eta.epoch_end(u32::try_from(done / 10).unwrap(), 83.0);
            let left = 30 - (done + 10);
            let expected = 2.0 * left as f64 + 5.0 * (ends - 1.0);
            let found = eta.left(done + 10).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            // The pause does not count as an update.
            eta.update(85.0);
            assert!((eta.per_update.seconds - 2.0).abs() < 1e-9);
        }
    }

    /// The estimate follows a device that becomes slower within a few hundred updates.
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
        assert!(
            (2.9..3.0).contains(&eta.per_update.seconds),
            "{:?}",
            eta.per_update
        );
    }

    /// Ten epochs of two updates of one second, every fourth with an evaluation of 20 seconds: after epochs 4, 8 and 10.
    #[test]
    fn evaluations_that_are_due_count_and_no_others() {
        let workload = Workload {
            steps: 20,
            steps_per_epoch: 2,
            epochs: 10,
            eval_every: 4,
            eval_every_updates: 0,
            ..workload(0)
        };
        let mut eta = Eta::new(workload);
        let (mut now, mut ends) = (0.0, Vec::new());
        for epoch in 0..10_u32 {
            for update in 1..=2_u64 {
                now += 1.0;
                eta.update(now);
                ends.push((
                    u64::from(epoch) * 2 + update,
                    eta.left(u64::from(epoch) * 2 + update),
                    now,
                ));
            }
            now += if [3, 7, 9].contains(&epoch) {
                20.0
            } else {
                0.5
            };
            eta.epoch_end(epoch, now);
        }
        for (step, left, at) in ends {
            // Known once both kinds of epoch end were timed.
            if step > 8 {
                let left = left.unwrap();
                assert!(
                    (at + left - now).abs() < 1e-9,
                    "{step}: {left} of {}",
                    now - at
                );
            }
        }
        assert_eq!(eta.left(20), Some(0.0));
        // Until an evaluation is timed, each is estimated, here as a third of 3 updates; with 0 only the last one is due.
        for (eval_every, evaluations) in [(0, 1.0), (1, 10.0), (4, 3.0), (5, 2.0), (100, 1.0)] {
            let mut eta = Eta::new(Workload {
                eval_every,
                ..workload
            });
            eta.update(1.0);
            eta.update(2.0);
            assert_eq!(eta.left(2), Some(18.0 + evaluations), "{eval_every}");
        }
    }

    /// Steps 0 to 24 of epochs of 10: the third is cut short, and ends too.
    #[test]
    fn a_run_that_ends_within_an_epoch_is_evaluated_then() {
        let mut eta = Eta::new(Workload {
            steps: 25,
            ..workload(17)
        });
        eta.update(1.0);
        eta.update(2.0);
        assert_eq!(eta.left(19), Some(6.0 + 2.0));
        eta.epoch_end(1, 12.0);
        assert_eq!(eta.left(20), Some(5.0 + 10.0));
    }
}
