//! What weights reveal: their model, and the normalisation of its images.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kvt_models::ModelConfig;
use kvt_models::weights::{self, StateDict, identify, recognise};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::small::Small;
use super::{FinetuneError, params, without_tag};
use crate::config::{ConfigError, Plan, load_plan};
use crate::error::TrainError;
use crate::fetch::{Published, locate};
use crate::run::{Checkpoints, RunDir, RunError, Which};
use crate::task::{CheckpointWeights, TEACHER, TaskKind, read_weights, task_file};
use crate::trained::TrainedError;
use kvt_data::text::read_text;

/// The model if neither the user nor the weights specify one.
const DEFAULT: &str = "deit_tiny_patch16_224";
/// The file that timm publishes next to weights.
const TIMM_CONFIG: &str = "config.json";
/// Maximum size in bytes: far more than needed.
const LARGEST_CONFIG: u64 = 1 << 20;

/// timm's `IMAGENET_INCEPTION_MEAN` and `_STD`, used for `vit_*` with Google's weights, and their `crop_pct`.
const HALF: [f64; 3] = [0.5; 3];
const VIT_CROP_PCT: f64 = 0.9;
/// Tags of timm's `vit_*` weights from other sources, with ImageNet's usual normalisation.
const IMAGENET_TAGS: [&str; 3] = ["dino", "mae", "ijepa"];

/// Weights to start from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// The file, or the name of published weights; `None` means random weights.
    pub(super) file: Option<PathBuf>,
    /// The keys of `[model]`.
    pub(super) model: Table,
    /// The keys of `[augment]` that describe the model's input images.
    pub(super) augment: Table,
    /// The sources of both, one line each.
    pub(super) notes: Vec<String>,
}

impl Source {
    /// Random weights of a model, by default the smallest one that its paper trains on ImageNet, or one for `small` images.
    pub(super) fn random(model: Option<&str>, small: Option<Small>) -> Self {
        let name = model.map_or(DEFAULT, without_tag);
        let (model, augment, how) = match (model, small) {
            (Some(_), _) => (
                named_model(name),
                Table::new(),
                "as you named it".to_owned(),
            ),
            (None, Some(small)) => (small.model(name), Small::augment(), small.describe()),
            (None, None) => (named_model(name), Table::new(), "a small one".to_owned()),
        };
        Self {
            file: None,
            model,
            augment,
            notes: vec![format!(
                "weights  random: {name} ({how}); they take many thousands of images of each class, trained weights (`--weights`) \
                 some dozens"
            )],
        }
    }

    /// Inspects weights: a file, the folder of a run, or the name of published weights. `model` is the model's name if the user gave
    /// one, and `img_size` decides between models of two sizes with the same weights.
    pub(super) fn of(
        given: &Path,
        model: Option<&str>,
        img_size: Option<usize>,
    ) -> Result<Self, FinetuneError> {
        let published = Published::named(given).map(Published::name);
        let path = &locate(given)?;
        let (file, run) = if path.is_dir() {
            let run = RunDir::open(path).map_err(TrainError::from)?;
            (checkpoint(&run)?, Some(run))
        } else {
            (path.to_owned(), run_of(path))
        };
        if !file.exists() {
            return Err(FinetuneError::NoWeights(file));
        }
        let unusable = |source| FinetuneError::Weights {
            path: file.clone(),
            source,
        };
        let weights = read_weights(&file).map_err(unusable)?;
        let run = run.map(|run| load_plan(&run.config(), &[])).transpose()?;

        let timm = TimmConfig::beside(&file)?
            .or_else(|| TimmConfig::of_metadata(weights::metadata(&file).ok()?))
            .unwrap_or_default();
        let (keys, how) = match (model.map(without_tag), &published, &run) {
            (Some(name), ..) => (named_model(name), "as you named it"),
            (None, Some(name), _) => (named_model(without_tag(name)), "as its name says"),
            (None, None, Some(plan)) => (model_of(plan)?, "as its run has it"),
            (None, None, None) => {
                match timm.architecture.as_deref().filter(|name| is_known(name)) {
                    Some(name) => (named_model(name), "as the file beside it says"),
                    None => {
                        let names = identify(&weights).map_err(unusable)?;
                        let name = choose(&file, &weights, names, img_size)?;
                        (named_model(&name), "by the shapes of its weights")
                    }
                }
            }
        };
        let name = keys.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let classes = recognise(&weights).and_then(|known| known.classes);
        let classes = classes.map_or_else(String::new, |n| format!(", trained for {n} classes"));
        // Under its whole name, so that a configuration means the same on another machine.
        let shown = published.as_ref().map_or(file, PathBuf::from);
        let of_model = format!("weights  `{}`: {name} ({how}){classes}", shown.display());

        let (augment, with) = match &run {
            Some(plan) => (augment_of(plan)?, "the mean and std of its run"),
            None => {
                let named = model.or(published.as_deref());
                normalisation(&timm, is_vit(named, &timm, &shown))
            }
        };
        let of_images = format!("images are normalised with {with}");
        Ok(Self {
            file: Some(shown),
            model: keys,
            augment,
            notes: vec![of_model, of_images],
        })
    }

    /// Number of parameters of the model.
    pub(super) fn params(&self) -> Result<usize, FinetuneError> {
        params(&self.model)
    }
}

/// The best weights of a run, or the last if none was evaluated: the reported weights, with DINO those of the teacher.
fn checkpoint(run: &RunDir) -> Result<PathBuf, FinetuneError> {
    let plan = load_plan(&run.config(), &[])?;
    let checkpoints = Checkpoints::new(run.checkpoints());
    let found = match checkpoints.load(Which::Best) {
        Err(RunError::NoCheckpoint { .. }) => checkpoints.load(Which::Last),
        found => found,
    };
    let (checkpoint, _) = found.map_err(TrainError::from)?;
    Ok(match plan.task {
        TaskKind::Classify => checkpoint.file(CheckpointWeights::reported(&plan).file()),
        TaskKind::Segment => return Err(TrainError::from(TrainedError::Pixels).into()),
        TaskKind::Dino => checkpoint.file(&task_file(TEACHER)),
    })
}

/// The run of a checkpoint's weight file: `RUN/checkpoints/NAME/FILE`.
fn run_of(file: &Path) -> Option<RunDir> {
    let checkpoints = file.parent()?.parent()?;
    let is_named = checkpoints.file_name()? == "checkpoints";
    let run = RunDir::open(checkpoints.parent()?).ok()?;
    is_named.then_some(run)
}

/// The only model that matches the weights.
fn choose(
    file: &Path,
    weights: &StateDict,
    names: Vec<String>,
    img_size: Option<usize>,
) -> Result<String, FinetuneError> {
    let path = || file.to_owned();
    let Some(known) = recognise(weights) else {
        let first = weights.iter().next().map(|(name, _)| name.to_owned());
        return Err(FinetuneError::UnknownModel {
            path: path(),
            first: first.unwrap_or_default(),
        });
    };
    let of_size = |name: &&String| {
        let config = ModelConfig::by_name(name).ok();
        img_size.is_some() && config.map(|config| config.img_size()) == img_size
    };
    match names.as_slice() {
        [name] => Ok(name.clone()),
        [] => Err(FinetuneError::CustomSize {
            path: path(),
            family: known.family,
        }),
        several => match several.iter().find(of_size) {
            Some(name) => Ok(name.clone()),
            None => Err(FinetuneError::SeveralModels {
                path: path(),
                names,
            }),
        },
    }
}

fn is_known(name: &str) -> bool {
    ModelConfig::by_name(name).is_ok()
}

fn named_model(name: &str) -> Table {
    Table::from_iter([("name".to_owned(), name.into())])
}

/// The model of a run, for other classes.
fn model_of(plan: &Plan) -> Result<Table, FinetuneError> {
    let mut keys = table(&plan.model)?;
    keys.remove("num_classes");
    Ok(keys)
}

/// The input preparation of a run, without random augmentation.
fn augment_of(plan: &Plan) -> Result<Table, FinetuneError> {
    let kept = "preset padding hflip interpolation mean std crop_pct crop_mode";
    let mut keys = table(&plan.augment)?;
    keys.retain(|key, _| kept.split(' ').any(|name| name == key));
    Ok(keys)
}

fn table(section: &impl serde::Serialize) -> Result<Table, FinetuneError> {
    Table::try_from(section).map_err(|error| FinetuneError::Config(error.into()))
}

/// The keys of `[augment]` for weights without a run, and what they are.
fn normalisation(timm: &TimmConfig, is_vit: bool) -> (Table, &'static str) {
    if let Some(augment) = timm.augment() {
        (augment, "the mean and std of the weights' own description")
    } else if is_vit {
        (half(), "the mean and std that timm has for its `vit_*`")
    } else {
        let usual = "ImageNet's mean and std, because the weights name none; change them with `--set augment.mean=...` and `augment.std`";
        (Table::new(), usual)
    }
}

/// The normalisation of timm's `vit_*`.
fn half() -> Table {
    let list = || Value::from(HALF.to_vec());
    Table::from_iter([
        ("mean".to_owned(), list()),
        ("std".to_owned(), list()),
        ("crop_pct".to_owned(), VIT_CROP_PCT.into()),
    ])
}

/// Whether the weights are named like one of timm's `vit_*` with Google's weights.
fn is_vit(model: Option<&str>, timm: &TimmConfig, file: &Path) -> bool {
    let name = match (model, timm.architecture.as_deref()) {
        (Some(name), _) | (None, Some(name)) => name.to_owned(),
        (None, None) => {
            let stem = file.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        }
    };
    let mut tags = IMAGENET_TAGS.iter();
    let is_elsewhere = tags.any(|tag| name.contains(&format!(".{tag}")));
    name.starts_with("vit_") && !is_elsewhere
}

/// timm's description of published weights.
#[derive(Clone, Debug, Default, PartialEq)]
struct TimmConfig {
    architecture: Option<String>,
    /// The keys of `pretrained_cfg`.
    pretrained: serde_json::Map<String, Json>,
}

impl TimmConfig {
    /// From the `config.json` next to a file, if it is one of timm's.
    fn beside(file: &Path) -> Result<Option<Self>, FinetuneError> {
        let path = file.with_file_name(TIMM_CONFIG);
        let text = match read_text(&path, LARGEST_CONFIG) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(ConfigError::from)?,
        };
        let config: Json = serde_json::from_str(&text)
            .map_err(|error| FinetuneError::Description { path, error })?;
        let Some(architecture) = config.get("architecture").and_then(Json::as_str) else {
            return Ok(None);
        };
        let pretrained = config.get("pretrained_cfg").and_then(Json::as_object);
        Ok(Some(Self {
            architecture: Some(architecture.to_owned()),
            pretrained: pretrained.cloned().unwrap_or_default(),
        }))
    }

    /// From the metadata of a `.safetensors` file.
    fn of_metadata(metadata: std::collections::BTreeMap<String, String>) -> Option<Self> {
        let architecture = metadata.get("architecture").cloned();
        let values = metadata.into_iter();
        let pretrained: serde_json::Map<_, _> = values
            .filter_map(|(key, text)| Some((key, serde_json::from_str(&text).ok()?)))
            .collect();
        let says = architecture.is_some() || pretrained.contains_key("mean");
        says.then_some(Self {
            architecture,
            pretrained,
        })
    }

    /// The keys of `[augment]` that are specified.
    fn augment(&self) -> Option<Table> {
        let three = |key: &str| {
            let list = self.pretrained.get(key)?.as_array()?.iter();
            let numbers: Vec<f64> = list.map(Json::as_f64).collect::<Option<_>>()?;
            (numbers.len() == 3).then(|| Value::from(numbers))
        };
        let mut keys = Table::from_iter([
            ("mean".to_owned(), three("mean")?),
            ("std".to_owned(), three("std")?),
        ]);
        let share = self.pretrained.get("crop_pct").and_then(Json::as_f64);
        if let Some(share) = share.filter(|share| (0.1..=2.0).contains(share)) {
            keys.insert("crop_pct".to_owned(), share.into());
        }
        let mode = self.pretrained.get("crop_mode").and_then(Json::as_str);
        if let Some(mode @ ("center" | "squash" | "border")) = mode {
            keys.insert("crop_mode".to_owned(), mode.into());
        }
        let filter = self.pretrained.get("interpolation").and_then(Json::as_str);
        if let Some(filter @ ("bicubic" | "bilinear")) = filter {
            keys.insert("interpolation".to_owned(), filter.into());
        }
        Some(keys)
    }
}
