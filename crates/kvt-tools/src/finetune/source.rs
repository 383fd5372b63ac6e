//! What weights reveal: their model, and how its images are prepared.

use std::path::{Path, PathBuf};

use kvt_models::weights::{self, StateDict, identify, nearest, recognise};
use kvt_models::{ImgSize, ModelConfig};
use toml::{Table, Value};

use super::small::Small;
use super::timm::{TimmConfig, name_of, normalisation};
use super::{FinetuneError, keys, without_tag};
use crate::trained::not_of_pixels;
use kvt_train::config::{ConfigError, ModelSection, Plan, load_plan};
use kvt_train::fetch::{Published, locate};
use kvt_train::run::RunDir;
use kvt_train::task::{read_weights, run_of, weights_of_run};

/// Parts of the names of vision transformers whose weights have one source, and so one normalisation.
const OF_ONE_SOURCE: [&str; 6] = ["_dinov2", "_dinov3", "_clip_", "_siglip", "_gap_", "tnt_"];

/// The model if neither the user nor the weights specify one.
const DEFAULT: &str = "deit_tiny_patch16_224";

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
        let how = model.map_or("a small one", |_| "as you named it");
        let (model, augment, how) = match small {
            Some(small) => (small.model(name), Small::augment(), small.describe()),
            None => (named_model(name), Table::new(), how.to_owned()),
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
        img_size: Option<ImgSize>,
    ) -> Result<Self, FinetuneError> {
        let published = Published::named(given).map(Published::name);
        let path = &locate(given)?;
        let (file, run) = if path.is_dir() {
            let run = RunDir::open(path)?;
            not_of_pixels(load_plan(&run.config(), &[])?)?;
            (weights_of_run(&run)?, Some(run))
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
            Some(plan) => (augment_of(plan)?, "the mean and std of its run".to_owned()),
            None => {
                let named = model.or(published.as_deref());
                // Weights of a plain `vit_*` may come from anywhere; those of others from where their name says.
                let shows = OF_ONE_SOURCE.iter().any(|kind| name.contains(kind));
                let of_shapes = if shows { name } else { "" };
                normalisation(&timm, [name_of(named, &timm, &shown).as_str(), of_shapes])
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
        let section: ModelSection = self
            .model
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| FinetuneError::Model(error.to_string()))?;
        Ok(section.config(None)?.summary().params)
    }
}

/// The only model that matches the weights.
fn choose(
    file: &Path,
    weights: &StateDict,
    names: Vec<String>,
    img_size: Option<ImgSize>,
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
        [] => Err(match nearest(weights) {
            Ok(nearest) => FinetuneError::CustomSize {
                path: path(),
                family: known.family,
                nearest: nearest.unwrap_or_default(),
            },
            Err(source) => FinetuneError::Weights {
                path: path(),
                source,
            },
        }),
        // Several of one size differ in what no weight shows, as the activation of CLIP's.
        several => match several.iter().filter(of_size).collect::<Vec<_>>()[..] {
            [name] => Ok(name.clone()),
            _ => Err(FinetuneError::SeveralModels {
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
    keys([("name", name.into())])
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
    let table = Table::try_from(section).map_err(ConfigError::from);
    Ok(table.map_err(Box::new)?)
}
