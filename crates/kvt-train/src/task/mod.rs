//! Tasks: the training objective of a network, and its evaluation.
//!
//! [`Trainer`](crate::engine::Trainer) handles epochs, updates and checkpoints. A [`Task`] handles the content of a
//! batch: its loss, the state that it keeps between batches, and its metrics: [`Classify`], [`MultiLabel`], [`Dino`], [`Segment`], [`Detect`]. A new task needs a
//! file or a folder here and a [`TaskKind`], and [`Session`](crate::engine::Session) trains it.

mod classify;
mod conflict;
mod dense;
mod detect;
mod dino;
mod eval_data;
mod evaluate;
mod lora;
mod mixer;
mod model;
mod multi_label;
mod segment;
mod size;
mod teacher;
#[cfg(test)]
mod testing;
mod trained;

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelConfig, Network};
use kvt_ops::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::augment::Transform;
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare};
use crate::error::TrainError;
use crate::recipe::{Gradients, Position};
use crate::run::{Metric, Metrics, Note};
use crate::splits::{Splits, train_transform};

pub use classify::Classify;
pub(crate) use conflict::Conflict;
pub use dense::DenseNetwork;
pub(crate) use detect::check as check_detect;
pub use detect::{
    AveragePrecision, Detect, DetectEvaluation, FoundObject, Scores, eval_objects,
    evaluate_objects, find_objects, score,
};
pub(crate) use dino::check as check_dino;
pub use dino::{
    Dino, DinoConfig, DinoHead, DinoNetwork, DinoOutput, GLOBAL_VIEWS, dino_loss, load_backbone,
    part_of_backbone, teacher_probabilities,
};
pub use eval_data::EvalData;
pub use evaluate::{Evaluation, evaluate, predict};
pub use lora::LoraConfig;
pub use model::{
    Freeze, InitConfig, ResetHead, build_model, check_classes, check_positions, read_for,
    read_weights, run_of, weight_file, with_weights, write_weights,
};
pub use multi_label::{
    LabelEvaluation, LabelScore, LabelScores, MultiLabel, MultiLabelConfig, evaluate_labels,
    probability,
};
pub(crate) use multi_label::{check as check_multi_label, is_above};
pub(crate) use segment::check as check_segment;
pub use segment::{
    Average, Segment, SegmentConfig, SegmentCounts, SegmentEval, SegmentEvaluation, eval_images,
    evaluate_segments, least_side, predict_labels,
};
pub use size::{DenseSize, largest_sides_of, sides_of, summary_of};
pub use teacher::{
    Fingerprint, LABELS, LOGITS, SavedLogits, Teacher, TeacherError, TeacherKind, TeacherNetwork,
    origin,
};
pub use trained::{DinoRole, load_checkpoint_backbone, load_checkpoint_model, weights_of_run};
pub(crate) use trained::{EMA, MODEL, OTHER_TASK, load_network, read_listed, task_file};

/// The task of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// [`Classify`]: the classes of labelled images.
    #[default]
    Classify,
    /// [`MultiLabel`]: any number of labels for each image.
    MultiLabel,
    /// [`Dino`]: features of images without labels.
    Dino,
    /// [`Segment`]: the class of each pixel.
    Segment,
    /// [`Detect`]: boxes and masks of objects.
    Detect,
}

/// The training objective, and its evaluation.
///
/// In an update, the trainer calls, in this order: [`begin`](Self::begin), [`loss`](Self::loss) for each micro-batch,
/// [`before_clip`](Self::before_clip), [`after_update`](Self::after_update).
pub trait Task: Sized + Send {
    /// The trained network: a classifier, or the student of self-supervised training with backbone and head.
    type Network: Network + Sync;
    /// The target of an image: its class, or `()` if labels are not used.
    type Target: Send + 'static;

    /// The metrics of an evaluation, in the order of tables.
    const METRICS: &'static [Metric];

    /// The metric by which the best checkpoint is chosen.
    const BEST: Metric;

    /// Height and width of the images of a model.
    fn size(_plan: &Plan, model: &ModelConfig) -> (usize, usize) {
        model.img_size().sides()
    }

    /// The views of a training image: a transform for each, to images of `size` (height, width). A single view with
    /// `[augment]`, unless the task uses others.
    ///
    /// # Errors
    /// If settings are inconsistent.
    fn views(plan: &Plan, size: (usize, usize)) -> Result<Vec<Arc<Transform>>, DataError> {
        Ok(vec![Arc::new(train_transform(plan, size)?)])
    }

    /// The model of a plan for its data.
    ///
    /// # Errors
    /// If there is no such model, or it does not match the images.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError>;

    /// The task and its network before the first update. With [`Weights::OfPlan`], the network has the weights of the plan, and a
    /// note describes the outcome.
    ///
    /// # Errors
    /// If the configuration does not describe a network, or weights cannot be read or do not match.
    fn start(setup: &mut Setup<'_>) -> Result<(Self, Self::Network), TrainError>;

    /// Prepares a training image: its views and its target.
    ///
    /// # Errors
    /// If settings are inconsistent.
    fn prepare(plan: &Plan, splits: &Splits) -> Result<Arc<dyn Prepare<Self::Target>>, DataError>;

    /// Number of parameters that a run reports: those of the model.
    fn parameters(model: &ModelConfig, _network: &Self::Network) -> usize {
        model.summary().params
    }

    /// The mean loss over the images of a micro-batch, `[1]`, with its graph.
    ///
    /// `phase` contains the key of all random draws for this micro-batch. Mixing of images (mixup, CutMix) belongs at the beginning:
    /// the batch is on the device, and its targets can become soft. The task's own state can change: a centre, a queue.
    /// [`undo`](Self::undo) restores it if the host learns that the update is not made before it continues. If the host learns that
    /// one update late, the change is kept: such an update ends the run without saving.
    ///
    /// # Errors
    /// If the network or the device gives no loss. A loss that is not finite is none: the trainer judges it.
    fn loss(
        &mut self,
        network: &Self::Network,
        batch: DeviceBatch<Self::Target>,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError>;

    /// Records the part of the task's state that [`loss`](Self::loss) changes, before the first micro-batch of an update.
    fn begin(&mut self) {}

    /// Restores the state that [`begin`](Self::begin) recorded: the update is not made, since an image cannot be read or its loss or
    /// gradient is not finite.
    fn undo(&mut self) {}

    /// Changes the complete gradients of an update before their norm is computed and they are clipped, for example to
    /// exclude a layer in the first epoch.
    fn before_clip(&self, _gradients: &mut Gradients, _network: &Self::Network, _at: Position) {}

    /// The sum that [`after_update`](Self::after_update) needs over all micro-batches of the update: over those of this process,
    /// with its number of rows. A task that needs a sum returns one in every process, with zeros if it had no micro-batch.
    fn sums(&self) -> Option<(Tensor<1>, usize)> {
        None
    }

    /// Receives the total of [`sums`](Self::sums) over all processes, and of their rows.
    fn take_sums(&mut self, _sum: Tensor<1>, _rows: usize) {}

    /// Updates the task's own state after an update, such as the average that is the teacher. `at` is the position
    /// before the update.
    fn after_update(&mut self, _network: &Self::Network, _at: Position) {}

    /// The task's statistics of the previous update, for the log; `at` is the position after it. It is called only if a
    /// line is due, and does not read the device itself: the host does, on a GPU while the device computes the next
    /// update.
    fn signals(&self, _at: Position) -> Option<Unread> {
        None
    }

    /// The task's own state, as files of a checkpoint: a name without extension, and its tensors.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        Ok(Vec::new())
    }

    /// Restores the result of [`state`](Self::state); `read` returns the tensors with a name.
    ///
    /// # Errors
    /// An error of `read`, or if the tensors do not match.
    fn load_state(
        &mut self,
        _read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        Ok(())
    }

    /// The model whose layers are analysed (`analysis.every`); `None` if the network contains no model of `kvt-models`.
    fn analyzed<'n>(&self, _network: &'n Self::Network) -> Option<&'n Model> {
        None
    }

    /// Evaluates a network without autodiff: the trained one, or the average of its weights.
    ///
    /// # Errors
    /// If a batch cannot be loaded, no image can be read, or the device fails.
    fn evaluate(
        &self,
        network: &Self::Network,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError>;
}

/// The statistics of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// The numbers, by name.
    pub metrics: Metrics,
    /// The problem, and what to change. It is reported once.
    pub warning: Option<String>,
}

/// Converts the numbers of [`Unread`] to signals.
pub type Tell = Box<dyn FnOnce(&[f64]) -> Signals>;

/// Statistics of an update that have not been read yet.
pub struct Unread {
    /// Numbers on the device, `[n]`.
    pub numbers: Tensor<1>,
    /// Interprets them. It contains the state of the task after the update, since other updates may have been made when they are read.
    pub tell: Tell,
}

impl Unread {
    /// Numbers that are the signals, by these names, and a warning beside them.
    fn named(numbers: impl Iterator<Item = (String, Tensor<1>)>, warning: Option<String>) -> Self {
        let (names, numbers): (Vec<_>, Vec<_>) = numbers.unzip();
        Self {
            numbers: Tensor::cat(numbers, 0),
            tell: Box::new(|numbers| Signals {
                metrics: names.into_iter().zip(numbers.iter().copied()).collect(),
                warning,
            }),
        }
    }
}

/// What a task and its network are made of.
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The model of the plan for its data.
    pub model: &'a ModelConfig,
    /// The data.
    pub splits: &'a Splits,
    /// Where weights come from.
    pub weights: Weights,
    /// The device, with autodiff.
    pub device: &'a Device,
    /// Receives what became of the weights.
    pub notes: &'a mut Vec<Note>,
}

/// The source of a network's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// According to the plan: from a file, or initialised.
    OfPlan,
    /// Replaced by those of a checkpoint.
    OfCheckpoint,
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The numbers, by name.
    pub metrics: Metrics,
    /// Number of images evaluated.
    pub images: usize,
}
