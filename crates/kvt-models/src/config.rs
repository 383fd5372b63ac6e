//! Configurations by name.

use crate::error::ModelError;
use crate::family::cost::Summary;
use crate::family::families::{ModelConfig, aliased, named};
use crate::family::img_size::ImgSize;
use crate::family::model_keys::{COMMON, ModelOverrides};
use crate::family::validate;
use crate::similar::similar;
use crate::vit::VitConfig;

/// The largest number of parameters that is not refused as a mistake: 16 GiB of weights, and four times as much to
/// train.
const MOST_PARAMS: usize = 1 << 32;

/// The names of all models, as timm spells them where it has the model.
pub fn names() -> Vec<String> {
    named().iter().map(ModelConfig::name).collect()
}

/// timm's other names of models of the same modules (its `vit_*`), each with the name that the model has here.
pub fn aliases() -> Vec<(String, String)> {
    let aliases = aliased().into_iter();
    aliases
        .map(|(alias, config)| (alias, config.name()))
        .collect()
}

impl ModelConfig {
    /// The configuration timm has under this name or [alias](aliases), with dense attention and without drop path.
    ///
    /// # Errors
    ///
    /// There is no such name; the error suggests similar ones.
    pub fn by_name(name: &str) -> Result<Self, ModelError> {
        let known = named().into_iter().find(|config| config.name() == name);
        let alias = || aliased().into_iter().find(|(alias, _)| alias == name);
        let known = known.or_else(|| alias().map(|(_, config)| config));
        known.ok_or_else(|| ModelError::UnknownModel {
            name: name.to_owned(),
            hint: suggest(name),
        })
    }

    /// This configuration with some values replaced.
    ///
    /// # Errors
    ///
    /// A value that the family does not have, a list that fits neither "one for all" nor "one per stage", or an
    /// invalid result.
    pub fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let family = self.family();
        let takes = |key| COMMON.contains(&key) || family.overrides.contains(&key);
        if let Some(field) = overrides.given().find(|key| !takes(*key)) {
            return Err(ModelError::NotApplicable {
                field,
                family: family.name,
            });
        }
        let config = self.replace(overrides)?;
        config.validate()?;
        let given = match &overrides.attention {
            Some(attention) => attention.per_stage()?.len(),
            None => 1,
        };
        let summary = config.summary();
        // Even if each size is in its range, their product may exceed any machine.
        let (params, expected) = (
            summary.params,
            "at most 4294967296: take fewer blocks or channels",
        );
        let field = "parameters of the model";
        validate::within(field, params as f64, params <= MOST_PARAMS, expected)?;
        if given > 1 && given != summary.attending().count() {
            return Err(ModelError::AttentionCount {
                given,
                stages: describe_stages(&summary),
            });
        }
        Ok(config)
    }

    /// Refuses invalid sizes.
    ///
    /// # Errors
    ///
    /// Zero sizes, an image that does not divide into patches or is not square, an embedding that does not divide
    /// among the heads, rates outside [0, 1), an attention that keeps no keys.
    pub fn validate(&self) -> Result<(), ModelError> {
        let size = self.img_size();
        // The other families compute with one side from here on.
        if size.side() > 0 && !size.is_square() && self.vit().is_none() {
            return Err(ModelError::NotSquare {
                height: size.height,
                width: size.width,
                side: size.side(),
                family: self.family().name,
            });
        }
        let common = self.common().validate();
        let valid = common.and_then(|()| self.of_family().validate());
        valid.map_err(|error| error.in_family(self.family().name))
    }

    /// Refuses images of another shape than the model's.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, are not `[batch, in_chans, height, width]` of the model.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        let (in_chans, img_size) = (self.in_chans(), self.img_size());
        if dims[1..] == [in_chans, img_size.height, img_size.width] {
            return Ok(());
        }
        Err(ModelError::InputShape {
            found: dims,
            in_chans,
            img_size,
        })
    }

    /// Refuses weights of a model with images of size `own` whose learned positions this model would misread: a file does not say
    /// the proportions of their map, and loading takes it for a square, or for the map of this model if it has as many patches.
    ///
    /// # Errors
    ///
    /// `own` is neither square nor the size of this model, which has learned positions.
    pub fn check_positions_of(&self, own: ImgSize) -> Result<(), ModelError> {
        let img_size = self.img_size();
        let learned = self
            .vit()
            .is_some_and(|vit| vit.embedded_prefix().is_some());
        if own.is_square() || own == img_size || !learned {
            return Ok(());
        }
        Err(ModelError::OtherRectangle {
            own: own.sides().into(),
            model: img_size.sides().into(),
        })
    }

    /// The configuration of a ViT, the family that has options.
    pub(crate) fn vit(&self) -> Option<&VitConfig> {
        match self {
            Self::Vit(config) => Some(config),
            _ => None,
        }
    }

    /// timm's name of the architecture; channels x depth replace a size that timm has no name for.
    pub fn name(&self) -> String {
        self.of_family().name()
    }

    /// The name by which timm makes this model, given its image size, channels and classes; `None` if it cannot: of the families
    /// CvT, T2T-ViT and So-ViT, in a size without a name, or with another attention than its own.
    pub fn in_timm(&self) -> Option<String> {
        if matches!(self, Self::Cvt(_) | Self::T2t(_) | Self::SoVit(_)) {
            return None;
        }
        let own = *self.common();
        let overrides = ModelOverrides {
            img_size: Some(own.img_size),
            in_chans: Some(own.in_chans),
            num_classes: Some(own.num_classes),
            drop_path: Some(own.drop_path),
            attn_drop: Some(own.attn_drop),
            ..ModelOverrides::default()
        };
        let known = named().into_iter().map(|config| (config.name(), config));
        let mut known = known.chain(aliased());
        // The first of several: timm has DeiT at 384 px in one size only, and all sizes at 224.
        let same =
            known.find(|(_, config)| config.clone().with(&overrides).is_ok_and(|of| of == *self));
        same.map(|(name, _)| name)
    }

    /// Size of the input image.
    pub fn img_size(&self) -> ImgSize {
        self.common().img_size
    }

    /// Channels of the input image.
    pub fn in_chans(&self) -> usize {
        self.common().in_chans
    }

    /// Classes.
    pub fn num_classes(&self) -> usize {
        self.common().num_classes
    }

    /// Whether there is a distillation token with a head that learns from a teacher.
    pub fn is_distilled(&self) -> bool {
        self.of_family().is_distilled()
    }

    /// If the classifier has an output for every token of a map ([`Logits::aux`](crate::Logits::aux)): how many
    /// tokens of the first map, along a side, become one token of it.
    pub fn token_scale(&self) -> Option<usize> {
        self.of_family().token_scale()
    }

    /// Size and cost, computed without building the model.
    pub fn summary(&self) -> Summary {
        self.of_family().summary()
    }
}

/// The stages that attend, with their key counts.
fn describe_stages(summary: &Summary) -> String {
    let stages: Vec<String> = summary
        .attending()
        .map(|stage| format!("`{}` with {} keys", stage.name, stage.keys))
        .collect();
    let plural = if stages.len() == 1 { "" } else { "s" };
    format!("{} stage{plural} ({})", stages.len(), stages.join(", "))
}

/// The beginnings of the names of timm's models that kvt lacks, although it has their relatives, and why.
const LACKING: [(&str, &str); 2] = [
    (
        "eva02_",
        "kvt lacks EVA-02, for its norm in the MLPs and its other rotary positions",
    ),
    (
        "beit",
        "kvt lacks BEiT, for its bias for relative positions",
    ),
];

/// Why there is no model of a name that timm has, if that is known.
pub fn lacking(name: &str) -> Option<&'static str> {
    let mut lacking = LACKING.iter();
    let found = lacking.find(|(start, _)| name.starts_with(start));
    found.map(|(_, reason)| *reason)
}

fn suggest(name: &str) -> String {
    if let Some(reason) = lacking(name) {
        return reason.to_owned();
    }
    let aliases = aliased().into_iter().map(|(alias, _)| alias);
    let near = similar(name, names().into_iter().chain(aliases));
    if near.is_empty() {
        return format!(
            "`kvt models list` shows the {} that there are",
            names().len()
        );
    }
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!("did you mean {}?", quoted.join(", "))
}

#[cfg(test)]
mod tests;
