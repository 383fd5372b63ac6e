//! Tasks: what a network is trained for, and how it is judged.
//!
//! [`Trainer`](crate::engine::Trainer) knows epochs, updates and checkpoints. A [`Task`] knows what a batch means: its
//! loss, what it remembers between batches, and its metrics: [`Classify`], [`Dino`]. A task is a file or a folder here, a
//! [`TaskKind`], and [`Session`](crate::engine::Session) trains it.

mod classify;
mod dino;
mod eval_data;
mod evaluate;
mod model;
mod teacher;
mod trained;

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelConfig};
use kvt_ops::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::augment::Transform;
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Sample, Splits, train_transform};
use crate::error::TrainError;
use crate::recipe::{Gradients, Network, Position};
use crate::run::{Metric, Metrics, Note};

pub use classify::Classify;
pub(crate) use dino::check as check_dino;
pub use dino::{
    Dino, DinoConfig, DinoHead, DinoNetwork, DinoOutput, GLOBAL_VIEWS, TEACHER, backbone_weights,
    dino_loss, load_backbone, teacher_probabilities,
};
pub use eval_data::EvalData;
pub use evaluate::{Evaluation, evaluate, evaluate_among, predict};
pub use model::{
    Freeze, HeadReset, InitConfig, ResetHead, build_model, check_classes, model_config, start_from,
};
pub use teacher::{
    Fingerprint, LABELS, LOGITS, SavedLogits, Teacher, TeacherError, TeacherKind, TeacherNetwork,
};
pub use trained::{CheckpointWeights, DinoRole, load_checkpoint_backbone, load_checkpoint_model};
pub(crate) use trained::{EMA, MODEL, load_network, task_file};

/// The task of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// [`Classify`]: the classes of labelled images.
    #[default]
    Classify,
    /// [`Dino`]: features of images without labels.
    Dino,
}

/// What is trained, and how it is judged.
///
/// In an update the trainer calls, in this order: [`begin`](Self::begin), [`loss`](Self::loss) for each micro-batch,
/// [`before_clip`](Self::before_clip), [`after_update`](Self::after_update).
pub trait Task: Sized {
    /// What is trained: a classifier, or the student of self-supervised training, backbone and head.
    type Network: Network;
    /// What is learned from an image: its class, or `()` where labels are not used.
    type Target: Send + 'static;

    /// The metrics of an evaluation, in the order of tables.
    const METRICS: &'static [Metric];

    /// The one of them by which the best checkpoint is chosen.
    const BEST: Metric;

    /// The views of a training image: a transform for each, to images of `size` (height, width). One by `[augment]`,
    /// unless the task takes others.
    ///
    /// # Errors
    /// If settings make no sense together.
    fn views(plan: &Plan, size: (usize, usize)) -> Result<Vec<Arc<Transform>>, DataError> {
        Ok(vec![Arc::new(train_transform(plan, size)?)])
    }

    /// The model of a plan for its data.
    ///
    /// # Errors
    /// If there is no such model, or it does not fit the images.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError>;

    /// The task and its network before the first update, on a device with autodiff. With [`Weights::OfPlan`] the
    /// network has the weights that the plan names, and a note says what became of them.
    ///
    /// # Errors
    /// If the configuration describes no network, or weights cannot be read or do not fit.
    fn start(
        plan: &Plan,
        model: &ModelConfig,
        splits: &Splits,
        weights: Weights,
        device: &Device,
        notes: &mut Vec<Note>,
    ) -> Result<(Self, Self::Network), TrainError>;

    /// The target of a training image.
    fn target(sample: &Sample) -> Self::Target;

    /// The mean loss over the images of a micro-batch, `[1]`, with its graph.
    ///
    /// `phase` carries the key of all that is drawn for this micro-batch. What mixes images (mixup, CutMix) belongs at the
    /// beginning: the batch is on the device, and its targets may become soft ones. The task's own state may change: a
    /// centre, a queue. [`undo`](Self::undo) puts it back where the host learns that the update is not made before it goes on. Where
    /// it learns that one update late, the change is kept: such an update ends the run without saving.
    fn loss(
        &mut self,
        network: &Self::Network,
        batch: DeviceBatch<Self::Target>,
        at: Position,
        phase: Phase,
    ) -> Tensor<1>;

    /// Notes what [`loss`](Self::loss) changes of the task's own state, before the first micro-batch of an update.
    fn begin(&mut self) {}

    /// Puts back what [`begin`](Self::begin) noted: the update is not made, since an image cannot be read or its loss or gradient is
    /// not finite.
    fn undo(&mut self) {}

    /// Changes the complete gradients of an update before their norm is taken and they are clipped, such as leaving out a
    /// layer in the first epoch.
    fn before_clip(&self, _gradients: &mut Gradients, _network: &Self::Network, _at: Position) {}

    /// What [`after_update`](Self::after_update) needs of all micro-batches of the update: a sum over those of this process, and
    /// of how many rows it is. A task that needs any has it in every process, with zeros where it had no micro-batch.
    fn sums(&self) -> Option<(Tensor<1>, usize)> {
        None
    }

    /// Takes the sum of what [`sums`](Self::sums) gave in all processes, and their rows.
    fn take_sums(&mut self, _sum: Tensor<1>, _rows: usize) {}

    /// Follows an update with the task's own state, such as the average that is a teacher. `at` is the place before the
    /// update.
    fn after_update(&mut self, _network: &Self::Network, _at: Position) {}

    /// What the task tells of the update before, for the log; `at` is the place after it. It is asked only where a line is
    /// due, and does not read the device itself: the host does, on a GPU while the device works at the next update.
    fn signals(&self, _at: Position) -> Option<Unread> {
        None
    }

    /// The task's own state, as files of a checkpoint: a name without ending, and its tensors.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        Ok(Vec::new())
    }

    /// Puts back what [`state`](Self::state) gave; `read` gives the tensors of a name.
    ///
    /// # Errors
    /// What `read` returns, or if the tensors do not fit.
    fn load_state(
        &mut self,
        _read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        Ok(())
    }

    /// The model whose layers are analysed (`analysis.every`); `None` where the network has none of `kvt-models`.
    fn analyzed<'n>(&self, _network: &'n Self::Network) -> Option<&'n Model> {
        None
    }

    /// Judges a network, which has no autodiff: the trained one, or the average of its weights.
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

/// What a task tells of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Numbers, by name.
    pub metrics: Metrics,
    /// What has gone wrong, and what to change. It is said once.
    pub warning: Option<String>,
}

/// What a task makes of the numbers of [`Unread`].
pub type Tell = Box<dyn FnOnce(&[f64]) -> Signals>;

/// What a task will tell of an update.
pub struct Unread {
    /// Numbers on the device, `[n]`.
    pub numbers: Tensor<1>,
    /// What they say. It knows of the task as it was after the update, since others may have been made when they are read.
    pub tell: Tell,
}

/// Where the weights of a network come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// As the plan says: from a file, or initialised.
    OfPlan,
    /// A checkpoint replaces them.
    OfCheckpoint,
}

/// What an evaluation came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The numbers, by name.
    pub metrics: Metrics,
    /// Images evaluated.
    pub images: usize,
}
