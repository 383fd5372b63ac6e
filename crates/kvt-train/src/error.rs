//! Errors that stop a run.

use std::path::PathBuf;

use burn::tensor::TensorReadError;

use crate::config::ConfigError;
use crate::data::{DataError, DataState};
use crate::device::DeviceError;
use crate::fetch::FetchError;
use crate::recipe::OptimizerError;
use crate::run::RunError;
use crate::task::TeacherError;
use crate::world::{Failure, WorldError};

/// An error of training, evaluation or prediction.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An invalid configuration.
    #[error(transparent)]
    Config(#[from] Box<ConfigError>),
    /// An error of the data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model's configuration or input.
    #[error(transparent)]
    Model(#[from] kvt_models::ModelError),
    /// An error of the weights.
    #[error(transparent)]
    Weights(#[from] kvt_models::weights::WeightsError),
    /// Published weights that are not here and could not be downloaded.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An error of the run's folder or its checkpoints.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An error of a file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The error of a process of a job, which all processes know.
    #[error("{}", .0.message)]
    Job(Failure),
    /// An error of the command line, which is sent to the other processes of a job.
    #[error("{0}")]
    Verb(String),
    /// The processes of a job lost contact, or cannot work together.
    #[error(transparent)]
    World(#[from] WorldError),
    /// An invalid optimizer state.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The device failed.
    #[error("the device failed: {0}")]
    Execution(String),
    /// The loss depends on no parameter, or the task excluded all of them.
    #[error(
        "no parameter got a gradient: the loss depends on none, or the task leaves all of them out"
    )]
    NoGradient,
    /// A centre for a different number of outputs.
    #[error("the centre in the checkpoint is not of the {0} outputs of `dino.out_dim`")]
    Centre(usize),
    /// A task that does not report the metric by which its checkpoints are compared.
    #[error("the evaluation has no `{0}`, by which the best checkpoint is chosen")]
    NoMetric(&'static str),
    /// The model does not match the data.
    #[error(
        "`model.num_classes` is {model}, but `{data}` has {found} classes: leave it out, or use data with as many classes"
    )]
    Classes {
        /// Classes of the model.
        model: usize,
        /// The data's folder.
        data: PathBuf,
        /// Its classes.
        found: usize,
    },
    /// Data with a single class, for which every model is right.
    #[error(
        "`{data}` has one class only, `{class}`: there is nothing to learn; it takes two classes or more, of an image folder each a folder"
    )]
    OneClass {
        /// The data's folder.
        data: PathBuf,
        /// Its class.
        class: String,
    },
    /// The loss or the gradient is no longer finite.
    #[error(
        "step {step} (epoch {}): loss {loss}, gradient norm {grad_norm}: training cannot continue; {dump}",
        .epoch + 1
    )]
    NotFinite {
        /// The update that failed, from 1.
        step: u64,
        /// Its epoch, from 0.
        epoch: u32,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        grad_norm: f64,
        /// Location of the dump, or why there is none.
        dump: String,
    },
    /// An error that can be repaired before the run continues.
    #[error("{}; the state after step {step} {saved}", chain(.cause))]
    Stopped {
        /// Number of updates done.
        step: u64,
        /// The error.
        cause: Box<TrainError>,
        /// Whether the state was saved.
        saved: String,
    },
    /// The configuration of a run is damaged.
    #[error(
        "the configuration of run `{run}` is damaged: {problem}\nwrite it again with `kvt config print CONFIG > {}`",
        .run.join("config.toml").display()
    )]
    RunConfig {
        /// The run's folder.
        run: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A resumed configuration that would change the run's mathematics.
    #[error(
        "run `{run}` was started with another configuration:\n{differences}\nuse the old values to resume, or start a new run in another `run.dir`, from these weights with `init.weights`"
    )]
    ConfigChanged {
        /// The run's folder.
        run: PathBuf,
        /// One line per difference.
        differences: String,
    },
    /// A resumed run that is past its end.
    #[error(
        "run `{run}` cannot end after `train.max_steps = {most}`: it has made {step} updates; give as many or more, or resume from an earlier \
         checkpoint with `--resume-from`"
    )]
    PastEnd {
        /// The run's folder.
        run: PathBuf,
        /// Updates that it has made.
        step: u64,
        /// Updates that it may make.
        most: u64,
    },
    /// The images of a resumed run are different.
    #[error(
        "the data of run `{run}` has changed: {}, or use another `run.dir` to start a new run",
        changed(.old, .new)
    )]
    DataChanged {
        /// The run's folder.
        run: PathBuf,
        /// The images of the checkpoint.
        old: DataState,
        /// The current images.
        new: DataState,
    },
    /// A class of a resumed run has another name.
    #[error(
        "the classes of the data are not those of `{path}`: the run has `{old}`, the data has `{new}`: give the class its old name to \
         resume, or use another `run.dir` to start a new run"
    )]
    ClassRenamed {
        /// The run's list of classes.
        path: PathBuf,
        /// The first of its names that the data does not have.
        old: String,
        /// The first name of the data that it does not have.
        new: String,
    },
    /// A checkpoint has weights that the model does not have.
    #[error(
        "checkpoint `{path}` has weights that the model lacks (`{names}`): the model is not the one that was trained"
    )]
    Surplus {
        /// The checkpoint.
        path: PathBuf,
        /// Its surplus weights.
        names: String,
    },
    /// A checkpoint without a file that another run would have written.
    #[error("checkpoint `{path}` has no `{file}`: {why}")]
    NoFile {
        /// The checkpoint.
        path: PathBuf,
        /// The file.
        file: String,
        /// Why its run did not write it.
        why: &'static str,
    },
    /// A weight file that does not match the model.
    #[error("could not start from the weights in `{path}`{hint}")]
    InitWeights {
        /// The file.
        path: PathBuf,
        /// A solution, if there is one.
        hint: &'static str,
        /// What is wrong with it.
        source: kvt_models::weights::WeightsError,
    },
    /// A teacher that does not match.
    #[error("`{path}` cannot teach this model: {problem}")]
    Teacher {
        /// The run or the file that it comes from.
        path: PathBuf,
        /// What is wrong with it.
        problem: TeacherError,
    },
    /// Weights of a teacher that do not match.
    #[error("could not load the teacher `{path}` into `distill.teacher_model`")]
    TeacherWeights {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kvt_models::weights::WeightsError,
    },
    /// A resumed run with a different teacher.
    #[error(
        "`{0}` is not the teacher that the run was started with: restore it, or use another `run.dir` to start a new run"
    )]
    OtherTeacher(PathBuf),
    /// No image could be evaluated.
    #[error("none of the images to evaluate could be read: run `kvt data check` on the data")]
    NothingEvaluated,
    /// No object in the evaluated images.
    #[error(
        "none of the {0} images to evaluate has an object that counts: average precision needs one in `data.val_annotations`"
    )]
    NoObjects(usize),
    /// No label among those of the evaluated images.
    #[error("none of the {0} images to evaluate has a label: average precision needs one")]
    NoLabels(usize),
    /// A threshold of a class that the data does not have.
    #[error("`multi_label.thresholds` names `{class}`, but the classes are {known}")]
    Threshold {
        /// The class.
        class: String,
        /// The classes of the data.
        known: String,
    },
    /// All pixels of the masks of a split are ignored: their number, and what they are for.
    #[error(
        "no pixel of the {0} masks to {1} has a class: `data.map`, `data.zero` or `data.ignore` leaves all of them out"
    )]
    NothingLabelled(usize, &'static str),
    /// The model's outputs are no longer finite.
    #[error(
        "step {step}: the validation {metric} is {value}: the weights have diverged; \
         start a new run with a lower `optim.lr` or with `optim.clip_norm`, or go back with `--resume-from best`"
    )]
    Diverged {
        /// Number of updates done.
        step: u64,
        /// The metric that is not finite.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// A model of other channels than the images.
    #[error(
        "`model.in_chans` is {model}, but the images have {images} channels, by the numbers in `augment.mean`: make them equal"
    )]
    Channels {
        /// Channels of the model.
        model: usize,
        /// Channels of the images.
        images: usize,
    },
    /// Weights of other classes.
    #[error(
        "`loss.class_weights` has {weights} weights, but there are {classes} classes: give one for each, or take \"inverse\""
    )]
    ClassWeights {
        /// How many weights there are.
        weights: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// A setting for tokens with a model that has no outputs for them.
    #[error(
        "`{key}` is for models with an output for every token, as VOLO has it, and `{model}` has none: remove it"
    )]
    NoTokenOutputs {
        /// The key.
        key: &'static str,
        /// The model.
        model: String,
    },
}

impl From<TensorReadError> for TrainError {
    fn from(error: TensorReadError) -> Self {
        Self::Execution(error.to_string())
    }
}

impl TrainError {
    /// Whether weights, moments and position are those after the last update, so that they are worth saving.
    pub(crate) fn leaves_the_state_whole(&self) -> bool {
        match self {
            Self::Job(failure) => failure.whole,
            Self::Data(_)
            | Self::NothingEvaluated
            | Self::NothingLabelled(..)
            | Self::NoObjects(_)
            | Self::NoLabels(_) => true,
            _ => false,
        }
    }

    /// Whether every process of a job ends with this error: it was [agreed](crate::world::agree()) on, or all processes derive
    /// it from the same numbers. The other processes do not know of any other error, and may wait.
    pub fn is_known_to_all(&self) -> bool {
        match self {
            Self::Stopped { cause, .. } => cause.is_known_to_all(),
            Self::Job(_)
            | Self::NotFinite { .. }
            | Self::NoGradient
            | Self::NoMetric(_)
            | Self::Diverged { .. }
            | Self::World(WorldError::Accumulate { .. } | WorldError::Sums { .. }) => true,
            _ => false,
        }
    }
}

/// An error and its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let texts: Vec<String> = errors.map(|error| error.to_string()).collect();
    texts.join(": ")
}

/// The differences between the images of a run and those of its checkpoint, and what to do.
fn changed(old: &DataState, new: &DataState) -> String {
    let counts = |state: &DataState| (state.train, state.val);
    if counts(old) == counts(new) && old.listing == new.listing {
        return "files have the same names but other sizes: restore the data to resume, or use `--set data.check_sizes=false` \
                if they were changed on purpose"
            .to_owned();
    }
    let names = if counts(old) == counts(new) {
        " with other names"
    } else {
        ""
    };
    format!(
        "it was trained on {} and validated on {} images, now there are {} and {}{names}: restore the data to resume",
        old.train, old.val, new.train, new.val
    )
}
