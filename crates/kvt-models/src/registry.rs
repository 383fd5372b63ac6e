//! Names to configurations.

use burn::tensor::Device;
use kvt_ops::Key;

use crate::architecture::{Architecture, Network, each};
use crate::common::CommonConfig;
use crate::cvt::CvtConfig;
use crate::deit::DeitConfig;
use crate::error::ModelError;
use crate::model::Model;
use crate::overrides::ModelOverrides;
use crate::pit::PitConfig;
use crate::summary::Summary;
use crate::swin::SwinConfig;

/// How alike two names are (Jaro-Winkler, 0 to 1) for one to be suggested for the other.
const NEAR: f64 = 0.8;
/// How many names are suggested at most.
const SUGGESTIONS: usize = 3;

/// Parameters of the largest model that is taken for meant: 16 GiB of weights, and four times that to train.
const MOST_PARAMS: usize = 1 << 32;

/// The configuration of any backbone.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// DeiT.
    Deit(DeitConfig),
    /// Swin.
    Swin(SwinConfig),
    /// PiT.
    Pit(PitConfig),
    /// CvT.
    Cvt(CvtConfig),
}

impl From<DeitConfig> for ModelConfig {
    fn from(config: DeitConfig) -> Self {
        Self::Deit(config)
    }
}

impl From<SwinConfig> for ModelConfig {
    fn from(config: SwinConfig) -> Self {
        Self::Swin(config)
    }
}

impl From<PitConfig> for ModelConfig {
    fn from(config: PitConfig) -> Self {
        Self::Pit(config)
    }
}

impl From<CvtConfig> for ModelConfig {
    fn from(config: CvtConfig) -> Self {
        Self::Cvt(config)
    }
}

/// The names of all models, as timm spells them where it has the model.
pub fn names() -> Vec<String> {
    models().iter().map(ModelConfig::name).collect()
}

/// All named models: 1000 classes, no dropout, dense attention, as timm makes them.
fn models() -> Vec<ModelConfig> {
    fn of<A: Architecture>() -> impl Iterator<Item = ModelConfig> {
        A::named().into_iter().map(Into::into)
    }
    let models = of::<DeitConfig>();
    let models = models.chain(of::<SwinConfig>());
    let models = models.chain(of::<PitConfig>());
    let models = models.chain(of::<CvtConfig>());
    models.collect()
}

impl ModelConfig {
    /// The configuration timm has under this name, with dense attention and without drop path.
    ///
    /// # Errors
    ///
    /// There is no such name; the error suggests near ones.
    pub fn by_name(name: &str) -> Result<Self, ModelError> {
        let known = models().into_iter().find(|config| config.name() == name);
        known.ok_or_else(|| ModelError::UnknownModel {
            name: name.to_owned(),
            hint: suggest(name),
        })
    }

    /// This configuration with some values replaced.
    ///
    /// # Errors
    ///
    /// A value the family does not have, a list that fits neither "one for all" nor "one per stage",
    /// or a result that describes no model.
    pub fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let config: Self = each!(Self, self, config => config.with(overrides)?.into());
        config.validate()?;
        let given = overrides.attention.len();
        let summary = config.summary();
        // Each size in its range, their product may be larger than any machine.
        if summary.params > MOST_PARAMS {
            return Err(ModelError::OutOfRange {
                field: "parameters of the model",
                value: summary.params as f64,
                expected: "at most 4294967296: take fewer blocks or channels",
            });
        }
        if given > 1 && given != summary.stages.len() {
            return Err(ModelError::AttentionCount {
                given,
                stages: describe_stages(&summary),
            });
        }
        Ok(config)
    }

    /// Refuses sizes that describe no model.
    ///
    /// # Errors
    ///
    /// Zero sizes, an image that does not divide into patches, an embedding that does not divide
    /// among the heads, rates outside [0, 1), an attention that keeps no keys.
    pub fn validate(&self) -> Result<(), ModelError> {
        each!(Self, self, config => config.validate())
    }

    /// Refuses images the model does not take.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, are not `[batch, in_chans, img_size, img_size]`.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        let (in_chans, img_size) = (self.in_chans(), self.img_size());
        if dims[1..] == [in_chans, img_size, img_size] {
            return Ok(());
        }
        Err(ModelError::InputShape {
            found: dims,
            in_chans,
            img_size,
        })
    }

    /// Builds the model with the original's initialisation. The same key gives the same weights on
    /// every device.
    ///
    /// # Errors
    ///
    /// The configuration describes no model.
    pub fn init(&self, device: &Device, key: Key) -> Result<Model, ModelError> {
        fn build<A: Architecture>(
            config: A,
            device: &Device,
            key: Key,
        ) -> Result<Model, ModelError> {
            config.validate()?;
            Ok(A::Network::new(config, device, key).into())
        }
        each!(Self, self.clone(), config => build(config, device, key))
    }

    /// timm's name of the architecture; channels x depth stand in for a size it has no name for.
    pub fn name(&self) -> String {
        each!(Self, self, config => config.name())
    }

    /// Side of the square input image in pixels.
    pub fn img_size(&self) -> usize {
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

    fn common(&self) -> &CommonConfig {
        each!(Self, self, config => config.common())
    }

    /// Size and cost, computed without building the model.
    pub fn summary(&self) -> Summary {
        each!(Self, self, config => config.summary())
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
