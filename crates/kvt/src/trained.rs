//! A trained model for `eval` and `predict`: from a run, or from a configuration and weights.

use std::path::{Path, PathBuf};

use anyhow::bail;
use burn::tensor::Device;
use clap::ArgGroup;
use kvt_models::Model;
use kvt_models::weights::{LoadOptions, Outcome};

use super::common::Overrides;
use super::output;
use kvt_data::text::{LARGEST_LIST, read_text};
use kvt_train::config::{Plan, load_plan, load_run_plan};
use kvt_train::data::{self, open_part};
use kvt_train::device::{self, ResolvedDevice};
use kvt_train::run::RunDir;
use kvt_train::task::{
    CheckpointWeights, DinoRole, HeadReset, TaskKind, build_model, load_checkpoint_backbone,
    load_checkpoint_model, model_config, read_weights, start_from,
};

/// Where the model comes from.
#[derive(Debug, clap::Args)]
// Flattened into another `Args`: clap names each group after its type, and names must be unique.
#[group(id = "trained")]
#[command(group(ArgGroup::new("run or configuration").required(true).args(["run", "config"])))]
pub(super) struct Args {
    /// A run's folder.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// Which of the run's checkpoints: `best`, `last`, or a checkpoint's folder.
    #[arg(
        long,
        value_name = "CHECKPOINT",
        default_value = "best",
        conflicts_with = "config"
    )]
    checkpoint: String,
    /// Take the average of the run's weights, as `ema.decay` made the run keep it; what a run with
    /// `ema.report = "ema"` does anyway.
    #[arg(long, conflicts_with = "config")]
    ema: bool,
    /// Take the trained weights of a run that reports their average, or the student of a run of DINO.
    #[arg(long, conflicts_with_all = ["config", "ema"])]
    raw: bool,
    /// A configuration file instead of a run.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Weights for the configuration, `.safetensors` or `.pth`; short for `--set init.weights=FILE`.
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with = "run")]
    weights: Option<PathBuf>,
}

/// A model that is ready to predict, with its plan and classes.
pub(super) struct Trained {
    pub(super) plan: Plan,
    pub(super) model: Model,
    pub(super) device: ResolvedDevice,
    /// The class names in label order, if the run has them.
    pub(super) classes: Option<Vec<String>>,
    /// Height and width of its images.
    pub(super) size: (usize, usize),
}

impl Args {
    /// A checkpoint of a run.
    pub(super) fn of_run(run: &Path, checkpoint: &str, ema: bool) -> Self {
        Self {
            run: Some(run.to_owned()),
            checkpoint: checkpoint.to_owned(),
            ema,
            raw: false,
            config: None,
            weights: None,
        }
    }

    /// The same, but with the trained weights of a run that reports their average, or the student of a DINO run.
    pub(super) fn with_raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Loads the model and checks that its weights are finite.
    pub(super) fn load(&self, overrides: &Overrides) -> anyhow::Result<Trained> {
        let trained = match (&self.run, &self.config) {
            (Some(run), _) => self.run(run, overrides)?,
            (None, Some(config)) => self.configured(config, overrides)?,
            (None, None) => bail!("neither a run nor a configuration"),
        };
        trained.model.check_finite()?;
        Ok(trained)
    }

    /// A model; only its backbone is used. It may come from a DINO run (its teacher, or with `--raw` its student) or have
    /// random weights.
    pub(super) fn load_backbone(
        &self,
        overrides: &Overrides,
        random: bool,
    ) -> anyhow::Result<Trained> {
        let trained = match (&self.run, &self.config) {
            (Some(run), _) => {
                let run = RunDir::open(run)?;
                let plan = plan_of(&run, overrides)?;
                if plan.task == TaskKind::Classify && !random {
                    return self.load(overrides);
                }
                if plan.task == TaskKind::Dino && self.ema {
                    bail!(
                        "`--ema`: a DINO run keeps no such average; the default is its teacher, and `--raw` selects the student"
                    );
                }
                let classes = run.read_classes()?;
                let mut trained = without_head(plan, Some(classes))?;
                if !random {
                    let role = if self.raw {
                        DinoRole::Student
                    } else {
                        DinoRole::Teacher
                    };
                    let which = &self.checkpoint;
                    let (model, warning) =
                        load_checkpoint_backbone(&run, which, role, trained.model)?;
                    trained.model = model;
                    if let Some(warning) = warning {
                        output::warning(&warning.to_string());
                    }
                }
                trained
            }
            (None, Some(config)) => {
                let plan = load_plan(config, &overrides.all())?;
                let weights = self.weights.clone().or_else(|| plan.init.weights.clone());
                let classes = open_part(&plan.data, data::Split::Train, None).ok();
                let mut trained = without_head(plan, classes.map(|source| source.classes))?;
                match weights {
                    _ if random => {}
                    None => bail!(
                        "no weights: use `--weights FILE`, set `init.weights`, or take `--features random`"
                    ),
                    Some(path) => trained.model = backbone_of(&path, trained.model)?,
                }
                trained
            }
            (None, None) => bail!("neither a run nor a configuration"),
        };
        trained.model.check_finite()?;
        Ok(trained)
    }

    fn run(&self, path: &Path, overrides: &Overrides) -> anyhow::Result<Trained> {
        let run = RunDir::open(path)?;
        let plan = plan_of(&run, overrides)?;
        if plan.task != TaskKind::Classify {
            let run = path.display();
            bail!(
                "run `{run}` has learned features, not classes: `kvt probe --run {run}` judges them"
            );
        }
        let classes = run.read_classes()?;
        let device = device_of(&plan)?;
        let config = model_config(&plan.model, Some(classes.len()))?;
        let model = build_model(&plan, &config, &inner(&device))?;
        let weights = match (self.ema, self.raw) {
            (true, _) => CheckpointWeights::Ema,
            (_, true) => CheckpointWeights::Trained,
            _ => CheckpointWeights::reported(&plan),
        };
        let (model, warning) = load_checkpoint_model(&run, &self.checkpoint, weights, model)?;
        if let Some(warning) = warning {
            output::warning(&warning.to_string());
        }
        Ok(Trained {
            plan,
            model,
            device,
            classes: Some(classes),
            size: (config.img_size(), config.img_size()),
        })
    }

    fn configured(&self, path: &Path, overrides: &Overrides) -> anyhow::Result<Trained> {
        let mut plan = load_plan(path, &overrides.all())?;
        if let Some(weights) = &self.weights {
            plan.init.weights = Some(weights.clone());
        }
        if plan.init.weights.is_none() {
            bail!("no weights: use `--weights FILE` or set `init.weights`");
        }
        let device = device_of(&plan)?;
        // The classes come from the data, so that the head can be checked against them.
        let classes = open_part(&plan.data, data::Split::Train, None)
            .ok()
            .map(|source| source.classes);
        let config = model_config(&plan.model, classes.as_ref().map(Vec::len))?;
        let model = build_model(&plan, &config, &inner(&device))?;
        // Never reset the head: a random head would be evaluated as if it had been trained.
        let (model, report) = start_from(&plan.init, HeadReset::Never, model)?;
        for name in report
            .iter()
            .flat_map(|report| report.names(Outcome::Unused))
        {
            output::warning(&format!("`{name}` of the weights is not used"));
        }
        Ok(Trained {
            plan,
            model,
            device,
            classes,
            size: (config.img_size(), config.img_size()),
        })
    }
}

/// The names in a file, one per line.
pub(super) fn names_in(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = read_text(path, LARGEST_LIST)?;
    Ok(text.lines().map(str::to_owned).collect())
}

impl Trained {
    /// The same with the class names from a file, if one is given.
    pub(super) fn named(self, file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else {
            return Ok(self);
        };
        let names = names_in(path)?;
        let classes = self.model.config().num_classes();
        if names.len() != classes {
            bail!(
                "`{}` names {} classes, but the model has {classes}",
                path.display(),
                names.len()
            );
        }
        Ok(Self {
            classes: Some(names),
            ..self
        })
    }
}

/// The plan of a run, with a warning if its images may be others.
fn plan_of(run: &RunDir, overrides: &Overrides) -> anyhow::Result<Plan> {
    let (plan, warning) = load_run_plan(run, &overrides.all())?;
    if let Some(warning) = warning {
        output::warning(&warning);
    }
    Ok(plan)
}

/// A model of a plan with random weights, and the smallest classification head.
fn without_head(plan: Plan, classes: Option<Vec<String>>) -> anyhow::Result<Trained> {
    let device = device_of(&plan)?;
    let mut section = plan.model.clone();
    section.overrides.num_classes = Some(1);
    let config = model_config(&section, None)?;
    Ok(Trained {
        model: build_model(&plan, &config, &inner(&device))?,
        plan,
        device,
        classes,
        size: (config.img_size(), config.img_size()),
    })
}

/// The backbone from a weight file of a classifier, or of a DINO student or teacher.
fn backbone_of(path: &Path, model: Model) -> anyhow::Result<Model> {
    let state = read_weights(path)?;
    let options = LoadOptions {
        reset_head: true,
        new_head: true,
        ..LoadOptions::default()
    };
    let (model, report) = model.load(&state, options)?;
    for name in report.names(Outcome::Unused) {
        output::warning(&format!("`{name}` of the weights is not used"));
    }
    Ok(model)
}

/// The device of a plan, which must support its precision.
fn device_of(plan: &Plan) -> anyhow::Result<ResolvedDevice> {
    let device = device::resolve(&plan.train.device)?;
    if let Some(warning) = device.check_precision(plan.train.precision)? {
        output::warning(&warning);
    }
    Ok(device)
}

fn inner(device: &ResolvedDevice) -> Device {
    device.device.clone().inner()
}
