//! The configuration of the stages of a hierarchical model.

use kvt_attention::AttentionConfig;

use crate::error::ModelError;
use crate::family::common::joined;
use crate::family::model_keys::{ModelOverrides, per_stage};
use crate::family::validate;

/// Lists with one entry per stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StagesConfig {
    /// Blocks of each stage; the length is the number of stages.
    pub depth: Vec<usize>,
    /// Attention heads of each stage; each divides the channels.
    pub num_heads: Vec<usize>,
    /// The attention of the blocks of each stage.
    pub attention: Vec<AttentionConfig>,
}

/// A named size: channels, blocks and heads of each stage.
pub(crate) type NamedSize = (
    &'static str,
    &'static [usize],
    &'static [usize],
    &'static [usize],
);

impl StagesConfig {
    /// Stages with dense attention.
    pub(crate) fn dense(depth: &[usize], num_heads: &[usize]) -> Self {
        Self {
            depth: depth.to_vec(),
            num_heads: num_heads.to_vec(),
            attention: vec![AttentionConfig::dense(); depth.len()],
        }
    }

    /// The number of stages.
    pub(crate) fn count(&self) -> usize {
        self.depth.len()
    }

    /// The name of the size with these channels and own blocks and heads; channels x blocks if it has none.
    pub(crate) fn size_name(&self, embed_dim: &[usize], sizes: &[NamedSize]) -> String {
        let own = (embed_dim, self.depth.as_slice(), self.num_heads.as_slice());
        let mut sizes = sizes.iter();
        match sizes.find(|(_, dims, depth, heads)| own == (*dims, *depth, *heads)) {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}x{}", joined(embed_dim), joined(&self.depth)),
        }
    }

    /// Blocks, heads and attention of each stage, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize, &AttentionConfig)> {
        let lists = self.depth.iter().zip(&self.num_heads).zip(&self.attention);
        lists.map(|((&depth, &heads), attention)| (depth, heads, attention))
    }

    /// `count` stages with some values replaced.
    pub(crate) fn with(
        &self,
        overrides: &ModelOverrides,
        count: usize,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            depth: per_stage("depth", &overrides.depth, &self.depth, count)?,
            num_heads: per_stage("num_heads", &overrides.num_heads, &self.num_heads, count)?,
            attention: overrides.attentions(&self.attention, count)?,
        })
    }

    /// Refuses zero stages, and lists of different lengths.
    pub(crate) fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&[("depth", self.count())])?;
        let lists = [
            ("num_heads", self.num_heads.len()),
            ("attention", self.attention.len()),
        ];
        lists
            .into_iter()
            .try_for_each(|(field, given)| validate::per_stage(field, given, self.count()))
    }
}
