//! Events of the training loop, and their listeners.
//!
//! Each event is one JSON object in `log.jsonl`, distinguished by `kind`. JSON has no non-finite numbers, so these are written as
//! the strings `"NaN"`, `"Infinity"` and `"-Infinity"` (which Python's `float` and JavaScript's `Number` can read).

use serde::{Deserialize, Serialize};

use super::{Metrics, RunError};

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A logged optimizer update.
    Step(StepRecord),
    /// A finished evaluation.
    Eval(EvalRecord),
    /// The measurements of a layer of the model.
    Layer(LayerRecord),
    /// A finished epoch, after its evaluation if it had one.
    Epoch(EpochRecord),
    /// A message to the user: warnings, resume, stop.
    Note(Note),
}

impl Event {
    /// Optimizer updates done at the event.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(step) => step.step,
            Self::Eval(eval) => eval.step,
            Self::Layer(layer) => layer.step,
            Self::Epoch(epoch) => epoch.step,
            Self::Note(note) => note.step,
        }
    }
}

/// Optimizer updates: in the log the means of those since the previous line; for progress a single update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Optimizer updates done, including this one: the first is 1.
    pub step: u64,
    /// The epoch it belongs to, from 0.
    pub epoch: u32,
    /// Training loss, mean over the images of an update.
    #[serde(with = "super::number")]
    pub loss: f64,
    /// Learning rate of the last update.
    #[serde(with = "super::number")]
    pub lr: f64,
    /// Global norm of the gradients before clipping.
    #[serde(with = "super::number")]
    pub grad_norm: f64,
    /// Training throughput, including the wait for data.
    #[serde(with = "super::number")]
    pub images_per_second: f64,
    /// Seconds of an update spent waiting for data.
    #[serde(with = "super::number")]
    pub data_wait: f64,
    /// The task's metrics of its last update, each under its own key of the line; empty for a classifier.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Seconds of an update that the first process spent on sums over the processes and on waiting for the others; only with
    /// several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<f64>,
}

/// One evaluation of a whole split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// The epoch that was just trained, from 0.
    pub epoch: u32,
    /// Optimizer updates done.
    pub step: u64,
    /// The evaluated split and weights: [`EvalRecord::VAL`] or [`EvalRecord::VAL_EMA`].
    pub split: String,
    /// The metrics, each under its own key of the line.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Images evaluated.
    pub images: u64,
}

impl EvalRecord {
    /// The validation split, used for the tables, the curves and `best`, unless `ema.report` says otherwise.
    pub const VAL: &'static str = "val";
    /// The validation split, evaluated with the EMA of the weights.
    pub const VAL_EMA: &'static str = "val_ema";
}

/// One layer in an analysis of the trained weights (`analysis.every`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// The epoch that was just trained, from 0.
    pub epoch: u32,
    /// Optimizer updates done.
    pub step: u64,
    /// The layer, from 1: blocks of all stages in order.
    pub layer: usize,
    /// Its stage, from 0.
    pub stage: usize,
    /// Its block within the stage, from 0.
    pub block: usize,
    /// The split of the images.
    pub split: String,
    /// Number of images analysed.
    pub images: u64,
    /// The metrics, each under its own key of the line, with its standard error under the same key and `_se`.
    #[serde(flatten)]
    pub metrics: Metrics,
}

impl LayerRecord {
    /// The suffix of a standard error's key.
    pub const ERROR: &'static str = "_se";
}

/// One finished epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Optimizer updates done.
    pub step: u64,
    /// Training loss, mean over the epoch's updates.
    #[serde(with = "super::number")]
    pub train_loss: f64,
    /// Learning rate of the last update.
    #[serde(with = "super::number")]
    pub lr: f64,
    /// Seconds of training, without the evaluation.
    #[serde(with = "super::number")]
    pub seconds: f64,
    /// Training throughput over the epoch.
    #[serde(with = "super::number")]
    pub images_per_second: f64,
    /// Share of the seconds spent waiting for data, in [0, 1]; logs of older versions lack it.
    #[serde(default, with = "super::number")]
    pub data_wait_share: f64,
    /// Share of the seconds that the first process spent on sums over the processes and on waiting for the others, in
    /// [0, 1]; only with several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication_share: Option<f64>,
}

/// The subject of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// What the run started from.
    Start,
    /// The run was started or resumed from a checkpoint.
    Resume,
    /// The run ended before its last epoch.
    Stop,
    /// The run is finished before its last epoch, since evaluations no longer improved.
    Patience,
    /// An unreadable image was skipped.
    Skipped,
    /// An update was skipped, since gradients of a scaled loss were not finite.
    Scale,
    /// Anything else worth knowing.
    Warning,
}

/// A message to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Optimizer updates done.
    pub step: u64,
    /// Its subject.
    pub topic: Topic,
    /// One sentence.
    pub message: String,
    /// The file concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Note {
    /// A note without a file.
    pub fn new(step: u64, topic: Topic, message: impl Into<String>) -> Self {
        Self {
            step,
            topic,
            message: message.into(),
            path: None,
        }
    }
}

/// Receives every event of a run, in order.
pub trait Listener {
    /// Receives one event.
    ///
    /// # Errors
    /// If it cannot be recorded; the loop then stops.
    fn event(&mut self, event: &Event) -> Result<(), RunError>;

    /// Receives every update, including those that are not logged one by one.
    fn progress(&mut self, _update: &StepRecord) {}

    /// Makes all events so far durable; called before a checkpoint is written and at the end.
    ///
    /// # Errors
    /// If the file system fails.
    fn sync(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn step(loss: f64) -> Event {
        Event::Step(StepRecord {
            step: 1,
            epoch: 0,
            loss,
            lr: 5e-4,
            grad_norm: 1.5,
            images_per_second: 64.0,
            data_wait: 0.25,
            metrics: Metrics::default(),
            communication: None,
        })
    }

    #[test]
    fn lines_have_the_documented_names() {
        assert_eq!(
            serde_json::to_string(&step(2.5)).unwrap(),
            r#"{"kind":"step","step":1,"epoch":0,"loss":2.5,"lr":0.0005,"grad_norm":1.5,"images_per_second":64.0,"data_wait":0.25}"#
        );
        let eval = Event::Eval(EvalRecord {
            epoch: 3,
            step: 40,
            split: EvalRecord::VAL.into(),
            metrics: Metrics::from([("loss", 1.0), ("top1", 50.0), ("top5", 90.0)]),
            images: 10,
        });
        assert_eq!(
            serde_json::to_string(&eval).unwrap(),
            r#"{"kind":"eval","epoch":3,"step":40,"split":"val","loss":1.0,"top1":50.0,"top5":90.0,"images":10}"#
        );
        let note = Event::Note(Note {
            path: Some("a/b.jpg".to_owned()),
            ..Note::new(7, Topic::Skipped, "truncated")
        });
        assert_eq!(
            serde_json::to_string(&note).unwrap(),
            r#"{"kind":"note","step":7,"topic":"skipped","message":"truncated","path":"a/b.jpg"}"#
        );
    }

    /// The metrics of a line are its keys outside the record's own; each task has its own metrics.
    #[test]
    fn metrics_come_back() {
        let eval = |metrics| {
            Event::Eval(EvalRecord {
                epoch: 3,
                step: 40,
                split: EvalRecord::VAL_EMA.into(),
                metrics,
                images: 10,
            })
        };
        let other = Metrics::from([("knn_top1", 41.5), ("entropy", f64::INFINITY)]);
        for metrics in [
            Metrics::from([("loss", 0.1), ("top1", 50.0)]),
            other,
            Metrics::default(),
        ] {
            let event = eval(metrics);
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        }
        let bad = r#"{"kind":"eval","epoch":3,"step":40,"split":"val","loss":"x","images":10}"#;
        assert!(serde_json::from_str::<Event>(bad).is_err());
    }

    #[test]
    fn non_finite_numbers_are_strings_and_come_back() {
        for (value, text) in [
            (f64::NAN, r#""NaN""#),
            (f64::INFINITY, r#""Infinity""#),
            (f64::NEG_INFINITY, r#""-Infinity""#),
        ] {
            let line = serde_json::to_string(&step(value)).unwrap();
            assert!(line.contains(&format!(r#""loss":{text}"#)), "{line}");
            let Event::Step(back) = serde_json::from_str(&line).unwrap() else {
                unreachable!("a step was written");
            };
            assert!(back.loss == value || (back.loss.is_nan() && value.is_nan()));
        }
        let bad = r#"{"kind":"step","step":1,"epoch":0,"loss":"x","lr":0,"grad_norm":0,"images_per_second":0,"data_wait":0}"#;
        assert!(serde_json::from_str::<Event>(bad).is_err());
    }

    #[test]
    fn every_bit_of_a_number_survives() {
        for value in [0.1 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, 1e300 / 3.0] {
            let line = serde_json::to_string(&step(value)).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), step(value));
        }
    }
}
