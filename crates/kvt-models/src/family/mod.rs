//! The interface of a family of models. `docs/contributing/add-model.md` lists the steps of adding one.

pub(crate) mod blocks;
pub(crate) mod common;
pub(crate) mod cost;
mod depth;
pub(crate) mod families;
pub(crate) mod img_size;
pub(crate) mod model_keys;
pub(crate) mod naming;
pub(crate) mod places;
pub(crate) mod stages;
pub(crate) mod transformer;
pub(crate) mod validate;

use burn::tensor::TensorData;
use kvt_attention::Macs;

use self::blocks::BlockGroup;
use self::common::CommonConfig;
use self::cost::{StageSummary, Summary};
use self::model_keys::ModelOverrides;
pub(crate) use self::naming::Renaming;
use crate::error::ModelError;
use crate::head::Classifier;
use crate::layers::Init;
use crate::weights::pos_embed::{Bicubic, Form};
use crate::weights::{StateDict, WeightsError};

/// The properties of all models of a family.
pub(crate) struct Family {
    /// The name in messages.
    pub name: &'static str,
    /// A parameter that only models of this family have, by which weights are recognised.
    pub signature: &'static str,
    /// The keys of [`ModelOverrides`] that the family accepts beside the [common](model_keys::COMMON) ones.
    pub overrides: &'static [&'static str],
    /// Names of the classifier's layers in the order of [`Classifier::LAYERS`], the class first; empty for layers
    /// that it lacks.
    pub outputs: &'static [&'static str],
    /// Parameters without weight decay, although they are not biases and have more than one dimension: they, or modules around them, by
    /// one part of their names.
    pub undecayed: &'static [&'static str],
    /// Parameters whose names are not their paths through the modules, which are the other names.
    pub paths: Renaming,
    /// The names in the authors' repository, if they differ from timm's.
    pub official: Official,
    /// The pyramid of its maps, for dense networks.
    pub dense: Dense,
    /// Variants that share names with this family but are other models.
    pub variants: &'static [Variant],
}

/// Whether a family has a pyramid of four maps, of a quarter to a thirty-second of the image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dense {
    /// It has one.
    Pyramid(DenseFamily),
    /// It lacks one: the maps that it has, in words.
    Lacks(&'static str),
}

/// What the official dense networks of a family add to its backbone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseFamily {
    /// The names of the norms of the maps, without the number at the end.
    pub norms: &'static str,
    /// Epsilon of these norms.
    pub epsilon: f64,
    /// Whether a stage begins with the normalised map of the one before it; otherwise the norms are beside the stream.
    pub in_stream: bool,
    /// The weights of a backbone from other dense networks under timm's names or the authors'; others as they are.
    pub to_timm: fn(StateDict) -> StateDict,
}

/// A model that looks like one of a family but computes something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// A weight that only this variant has.
    pub signature: &'static str,
    /// What it does differently, as the end of "the weights are of a model ...".
    pub difference: &'static str,
}

impl Variant {
    /// Whether weights are of it.
    pub(crate) fn is_in(&self, weights: &StateDict) -> bool {
        weights.get(self.signature).is_some()
    }

    /// The refusal of its weights; `hint` says what kvt has instead.
    pub(crate) fn error(self, hint: impl Into<String>) -> WeightsError {
        WeightsError::Variant {
            signature: self.signature,
            difference: self.difference,
            hint: hint.into(),
        }
    }
}

/// The names of weights in the authors' repository.
#[derive(Clone, Copy)]
pub(crate) struct Official {
    /// Whether weights carry these names.
    pub is_official: fn(&StateDict) -> bool,
    /// The renaming between timm's names and these, which are the other ones.
    pub names: Renaming,
    /// Whether an entry is optional in a file, because it is not a weight but a table that the model computes.
    pub is_computed: fn(&str) -> bool,
}

impl Official {
    /// The names are timm's.
    pub(crate) const TIMM: Self = Self {
        is_official: |_| false,
        names: Renaming::NONE,
        is_computed: |_| false,
    };
}

impl Family {
    /// Whether a parameter of this name is exempt from weight decay, whatever its shape.
    pub(crate) fn is_undecayed(&self, name: &str) -> bool {
        name.split('.').any(|part| self.undecayed.contains(&part))
    }

    /// Refuses the weights of a variant.
    pub(crate) fn check_variant(&self, weights: &StateDict) -> Result<(), WeightsError> {
        let mut variants = self.variants.iter();
        match variants.find(|variant| variant.is_in(weights)) {
            Some(variant) => Err(variant.error("kvt does not have that model")),
            None => Ok(()),
        }
    }

    /// Whether an entry is optional in a file, because it is not a weight.
    pub(crate) fn is_computed(&self, name: &str) -> bool {
        name.ends_with(".num_batches_tracked") || (self.official.is_computed)(name)
    }

    /// Whether a parameter belongs to a layer that turns features into class scores.
    pub(crate) fn is_of_head(&self, name: &str) -> bool {
        let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
        self.outputs.contains(&layer)
    }
}

/// What the [list of families](families) gives every configuration.
pub(crate) trait Common {
    /// The settings that all families share.
    fn common(&self) -> &CommonConfig;
}

/// The sizes and settings of a model of a family.
pub(crate) trait FamilyConfig: Common {
    /// All named sizes: 1000 classes, no dropout, dense attention, as timm makes them.
    fn named() -> Vec<Self>
    where
        Self: Sized;

    /// Other names under which timm has models of the same modules.
    fn aliases() -> Vec<(String, Self)>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// This configuration with some of its own values replaced: those of [`CommonConfig`] are already, and nothing
    /// is validated yet. The family accepts all of these values.
    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError>
    where
        Self: Sized;

    /// Channels of the map of each stage; for families that have a pyramid.
    fn map_channels(&self) -> Vec<usize> {
        Vec::new()
    }

    /// The minimum side of an image in pixels, and the pixels of a patch that sides are multiples of: 1 if remainders are dropped.
    /// By default convolutions are padded, so that one pixel makes one token.
    fn input_sides(&self) -> [usize; 2] {
        [1, 1]
    }

    /// Refuses weights of a classifier, under timm's names, that the backbone of a dense network cannot have.
    fn check_dense(&self, _weights: &StateDict) -> Result<(), WeightsError> {
        Ok(())
    }

    /// Refuses invalid sizes, beside those of [`CommonConfig`].
    fn validate(&self) -> Result<(), ModelError>;

    /// timm's name of the architecture; channels x depth replace a size that timm has no name for.
    fn name(&self) -> String;

    /// Channels of a token after the last stage, which have the last norm, and which the classifier reads.
    fn num_features(&self) -> usize;

    /// The stages, and parameters and operations of what is outside of them, without the last norm, and without the outputs that read one
    /// vector.
    fn cost(&self) -> (Vec<StageSummary>, usize, Macs);

    /// Size and cost, computed without building the model; meaningful for a valid configuration.
    fn summary(&self) -> Summary {
        let (stages, params, macs) = self.cost();
        let (features, classes) = (self.num_features(), self.common().num_classes);
        let outputs = (1 + usize::from(self.is_distilled())) * classes;
        let params = params + 2 * features + (features + 1) * outputs;
        let macs = macs + Macs::linear(features * outputs);
        Summary::new(self.name(), stages, params, macs)
    }

    /// The blocks, from the first to the last, for layer-wise learning rates. By default those of the stages, below
    /// the names of the stages.
    fn groups(&self) -> Vec<BlockGroup> {
        let stages = self.summary().stages.into_iter();
        let groups = stages.map(|stage| BlockGroup::new(stage.name, stage.depth));
        groups.collect()
    }

    /// How many numbers are drawn once and saved: they are neither trained, nor computed, nor statistics.
    fn fixed_numbers(&self) -> usize {
        0
    }

    /// Whether the classifier has a second output, which learns from a teacher.
    fn is_distilled(&self) -> bool {
        false
    }

    /// If the classifier has an output for every token of a map: how many tokens of the first map, along a side,
    /// become one token of it.
    fn token_scale(&self) -> Option<usize> {
        None
    }

    /// The classifier of the model with the original's initialisation: by default, linear layers as all others.
    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let sizes = [self.num_features(), self.common().num_classes];
        let distillation = self.is_distilled().then_some("head_dist");
        Classifier::init(init, ("head", distillation), sizes)
    }

    /// A weight in the order of the other of the two layouts, if they differ in more than names. The name is timm's.
    fn reordered(&self, _name: &str, _weight: &TensorData) -> Option<TensorData> {
        None
    }

    /// If `name` is that of position embeddings: how they are resized for another image size, to which rows and columns, and where their
    /// map is.
    fn positions(&self, _name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        None
    }

    /// A weight of another image size ([position embeddings](Self::positions), tables of relative positions) at the size of this model's
    /// parameter `name`; `None` if that is impossible.
    fn resize(&self, name: &str, _shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        let (bicubic, grid, form) = self.positions(name)?;
        bicubic.resample(weight, grid, form)
    }
}

#[cfg(test)]
mod tests {
    use crate::{twins, vit};

    #[test]
    fn whole_parts_of_names_say_what_does_not_decay() {
        let vit = |name| vit::FAMILY.is_undecayed(name);
        assert!(vit("pos_embed") && vit("stage1.pos_embed"));
        assert!(!vit("pos_embeds") && !vit("my_pos_embed"));
        let twins = |name| twins::FAMILY.is_undecayed(name);
        assert!(twins("pos_block.0.proj.0.weight") && twins("pos_block"));
        assert!(!twins("pos_blocks.0"));
    }
}
