//! The names of weights: their origin, the family that they indicate, and renaming.

use std::sync::Arc;

use crate::family::Family;
use crate::family::families::FAMILIES;
use crate::family::naming::Layout;
use crate::model::Model;
use crate::weights::StateDict;

/// What the names in a file reveal about its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The family.
    pub family: &'static str,
    /// The origin of the names.
    pub layout: Layout,
    /// Rows of the classifier.
    pub classes: Option<usize>,
}

/// The family, layout and classes of weights, as far as their names reveal them.
pub fn recognise(weights: &StateDict) -> Option<Recognised> {
    let family = family_of(weights)?;
    let layout = layout(family, weights);
    let classifier = family.outputs.first().and_then(|name| {
        let weight = format!("{name}.weight");
        weights.get(&match layout {
            Layout::Timm => weight,
            Layout::Official => family.official.names.other(&weight),
        })
    });
    Some(Recognised {
        family: family.name,
        layout,
        classes: classifier.and_then(|weight| weight.shape().first().copied()),
    })
}

/// The family of weights, as far as their names reveal it.
pub(super) fn family_of(weights: &StateDict) -> Option<&'static Family> {
    // The last match: later families have ViT's blocks too, plus modules that ViT does not have.
    let mut families = FAMILIES.iter().rev();
    families
        .find(|family| weights.get(family.signature).is_some())
        .copied()
}

pub(super) fn layout(family: &Family, weights: &StateDict) -> Layout {
    if (family.official.is_official)(weights) {
        Layout::Official
    } else {
        Layout::Timm
    }
}

impl Model {
    /// The origin of the names, as far as this model's family distinguishes the two.
    pub fn layout(&self, weights: &StateDict) -> Layout {
        layout(self.config.family(), weights)
    }

    /// The weights of this model's family under the names of a layout. They share the numbers that keep their order.
    pub fn rename(&self, weights: &StateDict, layout: Layout) -> StateDict {
        let family = self.config.family();
        if self::layout(family, weights) == layout {
            return weights.clone();
        }
        let names = family.official.names;
        let config = self.config.of_family();
        StateDict::of_shares(weights.shares().map(|(name, data)| {
            let renamed = match layout {
                Layout::Timm => names.own(name),
                Layout::Official => names.other(name),
            };
            let timm = match layout {
                Layout::Timm => &renamed,
                Layout::Official => name,
            };
            let reordered = config.reordered(timm, data);
            (
                renamed,
                reordered.map_or_else(|| Arc::clone(data), Arc::new),
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;
    use kvt_ops::Key;

    use super::*;
    use crate::{ModelConfig, ModelOverrides};

    /// The family, and the classes of the head, in both layouts of the names.
    #[test]
    fn names_tell_the_family_and_the_classes() {
        for (name, family, official) in [
            ("deit_tiny_patch16_224", "ViT", Layout::Timm),
            ("swin_tiny_patch4_window7_224", "Swin", Layout::Official),
            ("pit_ti_224", "PiT", Layout::Official),
            ("cvt_13", "CvT", Layout::Official),
            ("so_vit_7", "So-ViT", Layout::Official),
            ("t2t_vit_7", "T2T-ViT", Layout::Official),
            ("t2t_vit_t_14", "T2T-ViT", Layout::Official),
            ("volo_d1_224", "VOLO", Layout::Timm),
        ] {
            let overrides = ModelOverrides {
                img_size: Some(32.into()),
                num_classes: Some(5),
                ..ModelOverrides::default()
            };
            let config = ModelConfig::by_name(name)
                .unwrap()
                .with(&overrides)
                .unwrap();
            let model = config.init(&Device::flex(), Key::new(1)).unwrap();
            let timm = StateDict::from_model(&model).unwrap();
            for (weights, layout) in [
                (model.rename(&timm, Layout::Official), official),
                // timm has none of these families.
                (
                    timm,
                    if ["CvT", "T2T-ViT", "So-ViT"].contains(&family) {
                        official
                    } else {
                        Layout::Timm
                    },
                ),
            ] {
                let expected = Recognised {
                    family,
                    layout,
                    classes: Some(5),
                };
                assert_eq!(recognise(&weights), Some(expected), "{name}");
            }
        }
        assert_eq!(recognise(&StateDict::default()), None);
    }
}
