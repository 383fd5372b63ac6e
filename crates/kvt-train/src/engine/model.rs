//! The model of a plan: its configuration, and its weights before training.

use burn::tensor::Device;
use kvt_attention::{Attention, Implementation, Key, Neighbors, Selection};
use kvt_models::weights::{self, LoadOptions};
use kvt_models::{Model, ModelConfig, ModelOverrides};

use super::{Splits, TrainError};
use crate::config::{
    AttentionKind, ImplementationSetting, ModelPlan, NeighborsSetting, Plan, SelectionSetting,
};

/// The model of a plan, with the number of classes of the data where the plan names none.
///
/// # Errors
/// If there is no such model, or the overrides do not fit together.
pub fn model_config(plan: &ModelPlan, classes: Option<usize>) -> Result<ModelConfig, TrainError> {
    let attention = match &plan.attention.kind {
        AttentionKind::Dense => vec![Attention {
            temperature: plan.attention.temperature,
            ..Attention::dense()
        }],
        AttentionKind::Knn {
            neighbors,
            selection,
            implementation,
        } => neighbors
            .iter()
            .map(|&neighbors| {
                Ok(Attention {
                    neighbors: match neighbors {
                        NeighborsSetting::Count(count) => Neighbors::count(count)?,
                        NeighborsSetting::Fraction(share) => Neighbors::fraction(share)?,
                    },
                    selection: match selection {
                        SelectionSetting::DotProduct => Selection::DotProduct,
                        SelectionSetting::Euclidean => Selection::Euclidean,
                    },
                    implementation: match implementation {
                        ImplementationSetting::Auto => Implementation::Auto,
                        ImplementationSetting::Fused => Implementation::Fused,
                        ImplementationSetting::Masked => Implementation::Masked,
                        ImplementationSetting::Gathered => Implementation::Gathered,
                    },
                    temperature: plan.attention.temperature,
                })
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
    let found = splits.classes().len();
    let config = model_config(&plan.model, Some(found))?;
    if config.num_classes() != found {
        return Err(TrainError::Classes {
            model: config.num_classes(),
            data: splits.train.root.clone(),
            found,
        });
    }
    if config.in_chans() != 3 {
        return Err(TrainError::Channels(config.in_chans()));
    }
    Ok(config)
}

/// Builds a model with the plan's seed, and loads `init.weights` unless a checkpoint follows.
///
/// # Errors
/// If the configuration describes no model, or the weights cannot be read or do not fit.
pub fn build_model(
    plan: &Plan,
    config: &ModelConfig,
    device: &Device,
    checkpoint_follows: bool,
) -> Result<Model, TrainError> {
    let model = config.init(device, Key::new(plan.seed).named("init"))?;
    match &plan.init.weights {
        Some(path) if !checkpoint_follows => {
            let in_file = |source| TrainError::InitWeights {
                path: path.clone(),
                source,
            };
            let weights = weights::read(path)?;
            let options = LoadOptions {
                reset_head: plan.init.reset_head,
                ..LoadOptions::default()
            };
            Ok(model.load(&weights, options).map_err(in_file)?.0)
        }
        _ => Ok(model),
    }
}
