//! Names to configurations.

use burn::tensor::Device;
use kvt_attention::{Attention, Key};

use crate::deit::{Deit, DeitConfig};
use crate::error::ModelError;
use crate::model::Model;
use crate::overrides::ModelOverrides;
use crate::summary::Summary;

/// How alike two names are (Jaro-Winkler, 0 to 1) for one to be suggested for the other.
const NEAR: f64 = 0.8;
/// How many names are suggested at most.
const SUGGESTIONS: usize = 3;

/// The configuration of any backbone.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// DeiT.
    Deit(DeitConfig),
}

/// The names of all models, as timm spells them.
pub fn names() -> Vec<String> {
    models().map(|config| config.name()).collect()
}

/// All named models: 1000 classes, no dropout, dense attention, as timm makes them.
fn models() -> impl Iterator<Item = ModelConfig> {
    let sizes = [(192, 3), (384, 6), (768, 12)];
    sizes.into_iter().flat_map(|(embed_dim, num_heads)| {
        [(false, 224), (false, 384), (true, 224), (true, 384)].map(|(distilled, img_size)| {
            ModelConfig::Deit(DeitConfig {
                img_size,
                patch_size: 16,
                in_chans: 3,
                num_classes: 1000,
                embed_dim,
                depth: 12,
                num_heads,
                mlp_ratio: 4.0,
                qkv_bias: true,
                distilled,
                drop_path: 0.0,
                attn_drop: 0.0,
                attention: Attention::dense(),
            })
        })
    })
}

impl ModelConfig {
    /// The configuration timm has under this name, with dense attention and without drop path.
    ///
    /// # Errors
    ///
    /// There is no such name; the error suggests near ones.
    pub fn by_name(name: &str) -> Result<Self, ModelError> {
        models()
            .find(|config| config.name() == name)
            .ok_or_else(|| ModelError::UnknownModel {
                name: name.to_owned(),
                hint: suggest(name),
            })
    }

    /// This configuration with some values replaced.
    ///
    /// # Errors
    ///
    /// The list of attentions fits neither "one for all" nor "one per stage", or the result
    /// describes no model.
    pub fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let config = match self {
            Self::Deit(config) => {
                let config = DeitConfig {
                    img_size: overrides.img_size.unwrap_or(config.img_size),
                    patch_size: overrides.patch_size.unwrap_or(config.patch_size),
                    in_chans: overrides.in_chans.unwrap_or(config.in_chans),
                    num_classes: overrides.num_classes.unwrap_or(config.num_classes),
                    embed_dim: overrides.embed_dim.unwrap_or(config.embed_dim),
                    depth: overrides.depth.unwrap_or(config.depth),
                    num_heads: overrides.num_heads.unwrap_or(config.num_heads),
                    mlp_ratio: overrides.mlp_ratio.unwrap_or(config.mlp_ratio),
                    qkv_bias: overrides.qkv_bias.unwrap_or(config.qkv_bias),
                    distilled: config.distilled,
                    drop_path: overrides.drop_path.unwrap_or(config.drop_path),
                    attn_drop: overrides.attn_drop.unwrap_or(config.attn_drop),
                    attention: overrides
                        .attention
                        .first()
                        .copied()
                        .unwrap_or(config.attention),
                };
                config.validate()?;
                Self::Deit(config)
            }
        };
        let summary = config.summary();
        let given = overrides.attention.len();
        if given > 1 && given != summary.stages.len() {
            return Err(ModelError::AttentionCount {
                given,
                stages: describe_stages(&summary),
            });
        }
        Ok(config)
    }

    /// Builds the model with timm's initialisation. The same key gives the same weights on every
    /// device.
    ///
    /// # Errors
    ///
    /// The configuration describes no model.
    pub fn init(&self, device: &Device, key: Key) -> Result<Model, ModelError> {
        match self {
            Self::Deit(config) => Deit::new(config.clone(), device, key).map(Model::Deit),
        }
    }

    /// timm's name of the architecture; channels x depth stand in for a size it has no name for.
    pub fn name(&self) -> String {
        match self {
            Self::Deit(config) => config.name(),
        }
    }

    /// Side of the square input image in pixels.
    pub fn img_size(&self) -> usize {
        match self {
            Self::Deit(config) => config.img_size,
        }
    }

    /// Channels of the input image.
    pub fn in_chans(&self) -> usize {
        match self {
            Self::Deit(config) => config.in_chans,
        }
    }

    /// Classes.
    pub fn num_classes(&self) -> usize {
        match self {
            Self::Deit(config) => config.num_classes,
        }
    }

    /// Size and cost, computed without building the model.
    pub fn summary(&self) -> Summary {
        match self {
            Self::Deit(config) => config.summary(),
        }
    }
}

fn describe_stages(summary: &Summary) -> String {
    let stages: Vec<String> = summary
        .stages
        .iter()
        .map(|stage| format!("`{}` with {} keys", stage.name, stage.keys))
        .collect();
    let plural = if stages.len() == 1 { "" } else { "s" };
    format!("{} stage{plural} ({})", stages.len(), stages.join(", "))
}

fn suggest(name: &str) -> String {
    let mut near: Vec<(f64, String)> = names()
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, &known), known))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let list = |names: &mut dyn Iterator<Item = String>| {
        let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        quoted.join(", ")
    };
    if near.is_empty() {
        return format!("the models are {}", list(&mut names().into_iter()));
    }
    let nearest = near.into_iter().map(|(_, name)| name).take(SUGGESTIONS);
    format!("did you mean {}?", list(&mut { nearest }))
}

#[cfg(test)]
mod tests;
