//! The model of a plan: its configuration, and its weights before training.

use burn::tensor::Device;
use kvt_models::checkpoint::LoadOptions;
use kvt_models::weights::{self, LoadReport, WeightsError};
use kvt_models::{Model, ModelConfig};
use kvt_ops::Key;

use super::{Freeze, InitConfig, ResetHead, TrainError};
use crate::config::{ModelSection, Plan};
use crate::data::{ImageFolder, Splits};

/// The model of a plan, with the number of classes of the data where the plan names none.
///
/// # Errors
/// If there is no such model, or the overrides do not fit together.
pub fn model_config(
    section: &ModelSection,
    classes: Option<usize>,
) -> Result<ModelConfig, TrainError> {
    let mut overrides = section.overrides.clone();
    overrides.num_classes = overrides.num_classes.or(classes);
    Ok(ModelConfig::by_name(&section.name)?.with(&overrides)?)
}

/// The model of a plan for its data.
///
/// # Errors
/// If there is no such model, or its classes or channels are not those of the images.
pub(super) fn for_data(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError> {
    let config = model_config(&plan.model, Some(splits.classes().len()))?;
    check_classes(&config, &splits.train)?;
    if config.in_chans() != 3 {
        return Err(TrainError::Channels(config.in_chans()));
    }
    Ok(config)
}

/// Refuses labels that are not those of the model's head, and those of one class: whatever a model
/// does, it would be right.
///
/// # Errors
/// [`TrainError::Classes`] or [`TrainError::OneClass`].
pub fn check_classes(config: &ModelConfig, source: &ImageFolder) -> Result<(), TrainError> {
    let data = || source.root.clone();
    if let [class] = source.classes.as_slice() {
        return Err(TrainError::OneClass {
            data: data(),
            class: class.clone(),
        });
    }
    let (model, found) = (config.num_classes(), source.classes.len());
    if model != found {
        return Err(TrainError::Classes {
            model,
            data: data(),
            found,
        });
    }
    Ok(())
}

/// Builds a model with the plan's seed, with a frozen backbone where the plan says so.
///
/// # Errors
/// If the configuration describes no model.
pub fn build_model(
    plan: &Plan,
    config: &ModelConfig,
    device: &Device,
) -> Result<Model, TrainError> {
    let model = config.init(device, Key::new(plan.seed).named("init"))?;
    Ok(match plan.init.freeze {
        Freeze::None => model,
        Freeze::Backbone => model.freeze_backbone(),
    })
}

/// Whether [`start_from`] may leave the classification head as initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadReset {
    /// No: it must fit.
    Never,
    /// If `init.reset_head` says so.
    AsPlanned,
}

/// A model with the weights in `init.weights`, and what became of them; without that key the model as it is.
///
/// # Errors
/// If the weights cannot be read or do not fit.
pub fn start_from(
    plan: &InitConfig,
    head: HeadReset,
    model: Model,
) -> Result<(Model, Option<LoadReport>), TrainError> {
    let Some(path) = &plan.weights else {
        return Ok((model, None));
    };
    let options = match head {
        HeadReset::Never => LoadOptions::default(),
        HeadReset::AsPlanned => LoadOptions {
            reset_head: plan.reset_head != ResetHead::IfOther(false),
            new_head: plan.reset_head == ResetHead::Always,
            ..LoadOptions::default()
        },
    };
    match model.load(&weights::read(path)?, options) {
        Ok((model, report)) => Ok((model, Some(report))),
        Err(source) => Err(TrainError::InitWeights {
            path: path.clone(),
            hint: match (&source, head) {
                (
                    WeightsError::Incompatible {
                        only_head: true, ..
                    },
                    HeadReset::AsPlanned,
                ) => {
                    " (only the classification head does not fit: `init.reset_head = true` starts with a new one)"
                }
                _ => "",
            },
            source,
        }),
    }
}
