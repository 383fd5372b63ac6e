//! Whose names weights carry.

use super::state_dict::StateDict;
use crate::architecture::{Network, each};
use crate::cvt::Cvt;
use crate::deit::Deit;
use crate::model::Model;
use crate::pit::Pit;
use crate::swin::Swin;

/// Whose names weights carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// timm's.
    Timm,
    /// Those of the repository the model's authors published.
    Official,
}

/// The family of models whose weights these are and whose names they carry, as far as the names
/// tell.
pub fn recognise(weights: &StateDict) -> Option<(&'static str, Layout)> {
    let of = |family, mark, is_official: fn(&StateDict) -> bool| {
        weights.get(mark)?;
        let layout = if is_official(weights) {
            Layout::Official
        } else {
            Layout::Timm
        };
        Some((family, layout))
    };
    of("DeiT", "blocks.0.attn.qkv.weight", Deit::is_official)
        .or_else(|| {
            of(
                "Swin",
                "layers.0.blocks.0.attn.qkv.weight",
                Swin::is_official,
            )
        })
        .or_else(|| {
            of(
                "PiT",
                "transformers.0.blocks.0.attn.qkv.weight",
                Pit::is_official,
            )
        })
        .or_else(|| {
            of(
                "CvT",
                "stage0.blocks.0.attn.proj_q.weight",
                Cvt::is_official,
            )
        })
}

impl Model {
    /// Whose names the weights carry, as far as this model's family tells the two apart.
    pub fn layout(&self, weights: &StateDict) -> Layout {
        fn is_official<N: Network>(_: &N, weights: &StateDict) -> bool {
            N::is_official(weights)
        }
        if each!(Self, self, model => is_official(model, weights)) {
            Layout::Official
        } else {
            Layout::Timm
        }
    }

    /// The weights of this model's family under the names of a layout.
    pub fn rename(&self, weights: &StateDict, layout: Layout) -> StateDict {
        fn rename<N: Network>(_: &N, name: &str, layout: Layout) -> String {
            match layout {
                Layout::Timm => N::timm_name(name),
                Layout::Official => N::official_name(name),
            }
        }
        if self.layout(weights) == layout {
            return weights.clone();
        }
        let renamed = weights.iter().map(|(name, data)| {
            let name = each!(Self, self, model => rename(model, name, layout));
            (name, data.clone())
        });
        renamed.collect()
    }

    /// Whether a file may hold this although it is no weight.
    pub(crate) fn is_computed(&self, name: &str) -> bool {
        fn of<N: Network>(_: &N, name: &str) -> bool {
            N::is_computed(name)
        }
        name.ends_with(".num_batches_tracked") || each!(Self, self, model => of(model, name))
    }
}
