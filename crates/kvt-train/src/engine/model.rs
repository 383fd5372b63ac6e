//! The model of a plan: its configuration, and its weights before training.

use burn::tensor::Device;
use kvt_attention::{
    AttentionConfig, DenseConfig, Implementation, KnnConfig, Neighbors, Selection,
};
use kvt_models::checkpoint::LoadOptions;
use kvt_models::weights::{self, LoadReport, WeightsError};
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;

use super::TrainError;
use crate::config::{
    AttentionKind, ImplementationSetting, InitPlan, ModelPlan, NeighborsSetting, Plan,
    SelectionSetting,
};
use crate::data::{ImageFolder, Splits};

/// The model of a plan, with the number of classes of the data where the plan names none.
///
/// # Errors
/// If there is no such model, or the overrides do not fit together.
pub fn model_config(plan: &ModelPlan, classes: Option<usize>) -> Result<ModelConfig, TrainError> {
    let attention = match &plan.attention.kind {
        AttentionKind::Dense => vec![AttentionConfig::Dense(DenseConfig {
            temperature: plan.attention.temperature,
        })],
        AttentionKind::Knn {
            neighbors,
            selection,
            implementation,
        } => neighbors
            .iter()
            .map(|&neighbors| {
                let neighbors = match neighbors {
                    NeighborsSetting::Count(count) => Neighbors::count(count)?,
                    NeighborsSetting::Fraction(share) => Neighbors::fraction(share)?,
                };
                Ok(AttentionConfig::Knn(KnnConfig {
                    neighbors: neighbors.into(),
                    selection: match selection {
                        SelectionSetting::DotProduct => Selection::DotProduct,
                        SelectionSetting::Euclidean => Selection::Euclidean,
                    },
                    implementation: match implementation {
                        ImplementationSetting::Auto => Implementation::Auto,
                        ImplementationSetting::Fused => Implementation::Fused,
                        ImplementationSetting::Flash => Implementation::Flash,
                        ImplementationSetting::Masked => Implementation::Masked,
                        ImplementationSetting::Gathered => Implementation::Gathered,
                    },
                    temperature: plan.attention.temperature,
                }))
            })
            .collect::<Result<_, TrainError>>()?,
    };
    let overrides = ModelOverrides {
        img_size: plan.img_size,
        patch_size: plan.patch_size,
        patch_stride: plan.patch_stride,
        window_size: plan.window_size,
        kv_stride: plan.kv_stride,
        embed_dim: plan.embed_dim.clone(),
        depth: plan.depth.clone(),
        num_heads: plan.num_heads.clone(),
        mlp_ratio: plan.mlp_ratio,
        in_chans: plan.in_chans,
        num_classes: plan.num_classes.or(classes),
        qkv_bias: plan.qkv_bias,
        drop_path: Some(plan.drop_path),
        attn_drop: Some(plan.attn_drop),
        attention,
    };
    Ok(ModelConfig::by_name(&plan.name)?.with(&overrides)?)
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

/// Builds a model with the plan's seed.
///
/// # Errors
/// If the configuration describes no model.
pub fn build_model(
    plan: &Plan,
    config: &ModelConfig,
    device: &Device,
) -> Result<Model, TrainError> {
    Ok(config.init(device, Key::new(plan.seed).named("init"))?)
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
    plan: &InitPlan,
    head: HeadReset,
    model: Model,
) -> Result<(Model, Option<LoadReport>), TrainError> {
    let Some(path) = &plan.weights else {
        return Ok((model, None));
    };
    let options = LoadOptions {
        reset_head: head == HeadReset::AsPlanned && plan.reset_head,
        ..LoadOptions::default()
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
