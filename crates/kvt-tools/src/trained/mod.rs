//! A trained model that is ready to predict, from a run or from a configuration and weights, and the images that it is judged on.

mod dense;
mod detect;
mod error;
mod judge;
mod labelled_images;
mod labels;
mod logits;
mod predict;
mod results;
mod segment;
mod timm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use kvt_models::weights::{LoadOptions, LoadReport, Outcome, recognise};
use kvt_models::{Model, ModelConfig};

pub use self::dense::TrainedDense;
pub use self::detect::{Detector, LEAST_SCORE, Spotted};
pub use self::error::TrainedError;
pub use self::labelled_images::Images;
pub use self::labels::LabelResults;
pub use self::logits::{count_broken, of_images};
pub use self::predict::Prediction;
pub use self::results::Results;
pub(crate) use self::results::{class_rows, confused_rows};
pub use self::segment::{Seen, SegmentResults, Segmenter};
use kvt_data::augment::Transform;
use kvt_data::text::{LARGEST_LIST, read_text};
use kvt_data::{DataError, Split, open_part};
use kvt_train::config::{Document, Plan, load_run_plan};
use kvt_train::device::{self, ResolvedDevice};
use kvt_train::recipe::EmaReport;
use kvt_train::run::RunDir;
use kvt_train::splits::eval_transform;
use kvt_train::task::{
    DinoRole, TaskKind, build_model, check_positions, load_checkpoint_backbone,
    load_checkpoint_model, read_for, with_weights,
};

/// Receives warnings, each in a sentence.
pub type Warn<'a> = &'a mut dyn FnMut(&str);

/// Where a model comes from, and what is changed about its configuration.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A run.
    Run {
        /// Its folder.
        folder: PathBuf,
        /// Its checkpoint: `best`, `last`, a name or a folder.
        checkpoint: String,
        /// Which weights of the checkpoint.
        weights: Choice,
        /// Overrides of its configuration, in the form of `--set`.
        overrides: Vec<String>,
    },
    /// A configuration.
    Config {
        /// Its file.
        file: PathBuf,
        /// A file or name of weights, in place of `init.weights`.
        weights: Option<PathBuf>,
        /// As of a run.
        overrides: Vec<String>,
    },
}

/// A run, the name of its checkpoint, and which of its weights.
type Checkpoint<'a> = (RunDir, &'a str, Choice);

impl Origin {
    /// The plan, with a warning if its images may be others, and the checkpoint if it is a run; `with_data` says whether a configuration
    /// must have data.
    fn open(
        &self,
        with_data: bool,
        warn: Warn<'_>,
    ) -> Result<(Plan, Option<Checkpoint<'_>>), TrainedError> {
        match self {
            Self::Run {
                folder,
                checkpoint,
                weights,
                overrides,
            } => {
                let run = RunDir::open(folder)?;
                let (plan, warning) = load_run_plan(&run, overrides)?;
                check_positions(&run, &plan.model.backbone()?)?;
                if let Some(warning) = warning {
                    warn(&warning);
                }
                Ok((plan, Some((run, checkpoint.as_str(), *weights))))
            }
            Self::Config {
                file,
                weights,
                overrides,
            } => {
                let document = Document::load(file, overrides).map_err(Box::new)?;
                let plan = if with_data {
                    document.plan()
                } else {
                    document.plan_without_data()
                };
                let mut plan = plan.map_err(Box::new)?;
                plan.init.weights = weights.clone().or(plan.init.weights);
                Ok((plan, None))
            }
        }
    }

    /// The task of the plan.
    ///
    /// # Errors
    /// If the plan cannot be read.
    pub fn task(&self) -> Result<TaskKind, TrainedError> {
        let (plan, _) = self.open(true, &mut |_| {})?;
        Ok(plan.task)
    }
}

/// Which weights of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Those that the run reports; of DINO, the teacher.
    #[default]
    Reported,
    /// The average of the weights.
    Average,
    /// The trained weights; of DINO, the student.
    Raw,
}

/// A model that is ready to predict, with its plan and classes.
#[derive(Debug)]
pub struct Trained {
    /// Its plan.
    pub plan: Plan,
    /// The model, without autodiff.
    pub model: Model,
    /// Where it is.
    pub device: ResolvedDevice,
    /// The class names in label order, if they are known.
    pub classes: Option<Vec<String>>,
    /// Height and width of its images.
    pub size: (usize, usize),
}

impl Trained {
    /// A classifier, whose weights are finite. `with_data` says whether a configuration must have data, which it may lack where no image is
    /// read.
    ///
    /// # Errors
    /// If the run is not that of a classifier, something that it consists of cannot be read, or they do not match.
    pub fn load(origin: &Origin, with_data: bool, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let (plan, run) = origin.open(with_data, warn)?;
        let plan = not_of_pixels(plan)?;
        let trained = match run {
            Some((run, ..)) if plan.task == TaskKind::Dino => {
                return Err(TrainedError::NoClasses(run.path().to_owned()));
            }
            Some((run, name, choice)) => Self::of_run(&run, plan, name, choice, warn)?,
            None => Self::configured(plan, warn)?,
        };
        trained.model.check_finite()?;
        Ok(trained)
    }

    /// A model of which only the backbone is used. It may come from a DINO run, or have `random` weights.
    ///
    /// # Errors
    /// As [`Trained::load`].
    pub fn load_backbone(
        origin: &Origin,
        random: bool,
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        let (plan, run) = origin.open(true, warn)?;
        let plan = not_of_pixels(plan)?;
        let config = plan.model.backbone()?;
        let trained = match run {
            Some((run, ..)) if random => {
                let classes = run.read_classes()?;
                Self::random(plan, &config, Some(classes), warn)?
            }
            Some((run, name, choice)) => Self::of_run(&run, plan, name, choice, warn)?,
            None => {
                let weights = plan.init.weights.clone();
                let classes = classes_of_data(&plan);
                let mut trained = Self::random(plan, &config, classes, warn)?;
                match weights {
                    _ if random => {}
                    None => {
                        return Err(TrainedError::NoWeights(
                            "use `--weights FILE`, set `init.weights`, or take `--features random`",
                        ));
                    }
                    Some(path) => trained.model = backbone_of(&path, trained.model, warn)?,
                }
                trained
            }
        };
        trained.model.check_finite()?;
        Ok(trained)
    }

    /// The model that the last checkpoint of a plan's run reports; of DINO the backbone of the teacher, with an untrained head.
    ///
    /// # Errors
    /// If it cannot be read, or does not match the plan.
    pub fn last_of(plan: &Plan, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let run = RunDir::open(&plan.run.dir)?;
        Self::of_run(&run, plan.clone(), "last", Choice::Reported, warn)
    }

    /// The model in a checkpoint of a run; of a DINO run the backbone, with an untrained head.
    fn of_run(
        run: &RunDir,
        plan: Plan,
        checkpoint: &str,
        choice: Choice,
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        let classes = run.read_classes()?;
        let is_dino = plan.task == TaskKind::Dino;
        let config = if is_dino {
            plan.model.backbone()?
        } else {
            plan.model.config(Some(classes.len()))?
        };
        let trained = Self::random(plan, &config, Some(classes), warn)?;
        let (model, warning) = if is_dino {
            let role = match choice {
                Choice::Reported => DinoRole::Teacher,
                Choice::Average => return Err(TrainedError::NoAverage),
                Choice::Raw => DinoRole::Student,
            };
            load_checkpoint_backbone(run, checkpoint, role, trained.model)?
        } else {
            let weights = weights_of(&trained.plan, choice);
            load_checkpoint_model(run, checkpoint, weights, trained.model)?
        };
        if let Some(warning) = warning {
            warn(&warning);
        }
        Ok(Self { model, ..trained })
    }

    fn configured(plan: Plan, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let path = configured_weights(&plan)?;
        let state = read_for(&plan.model.backbone()?, &path)?;
        // So that the head can be checked against them. Without them it is that of the weights, unless the plan has a number.
        let classes = classes_of_data(&plan);
        let named = classes.as_ref().map(Vec::len);
        let count = named.or_else(|| recognise(&state)?.classes);
        let config = plan.model.config(count)?;
        let trained = Self::random(plan, &config, classes, warn)?;
        // Never reset the head: a random head would be evaluated as if it had been trained.
        let (model, report) = with_weights(&path, &state, trained.model)?;
        warn_of_unused(&report, warn);
        Ok(Self { model, ..trained })
    }

    /// A model with random weights.
    fn random(
        plan: Plan,
        config: &ModelConfig,
        classes: Option<Vec<String>>,
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        let device = device_of(&plan, warn)?;
        Ok(Self {
            model: build_model(&plan, config, &inner(&device))?,
            plan,
            device,
            classes,
            size: config.img_size().sides(),
        })
    }

    /// The same with the class names of a file, if one is given.
    ///
    /// # Errors
    /// If it cannot be read, or names another number of classes.
    pub fn named(self, file: Option<&Path>) -> Result<Self, TrainedError> {
        let names = file.map(|path| names_of(path, self.model.config().num_classes()));
        let classes = names.transpose()?.or(self.classes);
        Ok(Self { classes, ..self })
    }

    /// What is done to an image before the model sees it.
    ///
    /// # Errors
    /// If the settings of the plan contradict each other.
    pub fn transform(&self) -> Result<Arc<Transform>, DataError> {
        Ok(Arc::new(eval_transform(&self.plan, self.size)?))
    }
}

/// Refuses a plan whose network classifies pixels or finds objects.
pub(crate) fn not_of_pixels(plan: Plan) -> Result<Plan, TrainedError> {
    let (task, does) = match plan.task {
        TaskKind::Segment => ("segment", "labels pixels, not images"),
        TaskKind::Detect => ("detect", "finds objects, not classes of images"),
        TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => return Ok(plan),
    };
    Err(TrainedError::NotOfImages(task, does))
}

/// The weights of a configuration.
fn configured_weights(plan: &Plan) -> Result<PathBuf, TrainedError> {
    let hint = "use `--weights FILE` or set `init.weights`";
    let weights = plan.init.weights.clone();
    weights.ok_or(TrainedError::NoWeights(hint))
}

/// The weights of a checkpoint that are chosen.
fn weights_of(plan: &Plan, choice: Choice) -> EmaReport {
    match choice {
        Choice::Reported => plan.ema.report,
        Choice::Average => EmaReport::Ema,
        Choice::Raw => EmaReport::Raw,
    }
}

/// The names in a file, one per line.
///
/// # Errors
/// If it cannot be read.
pub fn names_in(path: &Path) -> std::io::Result<Vec<String>> {
    let text = read_text(path, LARGEST_LIST)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The names of so many classes in a file.
fn names_of(path: &Path, classes: usize) -> Result<Vec<String>, TrainedError> {
    let names = names_in(path)?;
    if names.len() != classes {
        return Err(TrainedError::Names {
            path: path.to_owned(),
            names: names.len(),
            classes,
        });
    }
    Ok(names)
}

/// The classes of a plan's data, if these are there.
fn classes_of_data(plan: &Plan) -> Option<Vec<String>> {
    // Folders of the usual names where a command runs are not the data of a plan that has none.
    let data = plan.read_data();
    if data.path.as_os_str().is_empty() {
        return None;
    }
    let source = open_part(&data, Split::Train, None).ok()?;
    Some(source.classes)
}

/// The backbone from a weight file of a classifier, or of a DINO student or teacher.
fn backbone_of(path: &Path, model: Model, warn: Warn<'_>) -> Result<Model, TrainedError> {
    let options = LoadOptions {
        reset_head: true,
        new_head: true,
        ..LoadOptions::default()
    };
    let weights = read_for(&model.config(), path)?;
    let (model, report) = model.load(&weights, options)?;
    warn_of_unused(&report, warn);
    Ok(model)
}

fn warn_of_unused(report: &LoadReport, warn: Warn<'_>) {
    for name in report.names(Outcome::Unused) {
        warn(&format!("`{name}` of the weights is not used"));
    }
}

/// The device of a plan, which must support its precision.
fn device_of(plan: &Plan, warn: Warn<'_>) -> Result<ResolvedDevice, TrainedError> {
    let device = device::resolve(&plan.train.device)?;
    if let Some(warning) = device.check_precision(plan.train.precision)? {
        warn(&warning);
    }
    Ok(device)
}

fn inner(device: &ResolvedDevice) -> Device {
    device.device.clone().inner()
}
