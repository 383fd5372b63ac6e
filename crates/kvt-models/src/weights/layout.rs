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

/// What the names in a file tell about the model it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The family.
    pub family: &'static str,
    /// Whose names these are.
    pub layout: Layout,
    /// Rows of the classifier.
    pub classes: Option<usize>,
}

/// The model that weights are for, as far as their names tell.
pub fn recognise(weights: &StateDict) -> Option<Recognised> {
    known::<Deit>(weights)
        .or_else(|| known::<Swin>(weights))
        .or_else(|| known::<Pit>(weights))
        .or_else(|| known::<Cvt>(weights))
}

fn known<N: Network>(weights: &StateDict) -> Option<Recognised> {
    weights.get(N::MARK)?;
    let layout = layout::<N>(weights);
    let classifier = N::CLASSIFIERS.first().and_then(|name| {
        let weight = format!("{name}.weight");
        weights.get(&match layout {
            Layout::Timm => weight,
            Layout::Official => N::official_name(&weight),
        })
    });
    Some(Recognised {
        family: N::FAMILY,
        layout,
        classes: classifier.and_then(|weight| weight.shape().first().copied()),
    })
}

fn layout<N: Network>(weights: &StateDict) -> Layout {
    if N::is_official(weights) {
        Layout::Official
    } else {
        Layout::Timm
    }
}

/// The name of a weight in a layout, from that in the other.
fn renamed<N: Network>(name: &str, layout: Layout) -> String {
    match layout {
        Layout::Timm => N::timm_name(name),
        Layout::Official => N::official_name(name),
    }
}

impl Model {
    /// Whose names the weights carry, as far as this model's family tells the two apart.
    pub fn layout(&self, weights: &StateDict) -> Layout {
        fn of<N: Network>(_: &N, weights: &StateDict) -> Layout {
            layout::<N>(weights)
        }
        each!(Self, self, model => of(model, weights))
    }

    /// The weights of this model's family under the names of a layout.
    pub fn rename(&self, weights: &StateDict, layout: Layout) -> StateDict {
        fn of<N: Network>(_: &N, name: &str, layout: Layout) -> String {
            renamed::<N>(name, layout)
        }
        if self.layout(weights) == layout {
            return weights.clone();
        }
        let renamed = weights.iter().map(|(name, data)| {
            let name = each!(Self, self, model => of(model, name, layout));
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;
    use kvt_ops::Key;

    use super::*;
    use crate::{ModelConfig, ModelOverrides};

    /// The family, and the classes of the head, whosever names the weights carry.
    #[test]
    fn names_tell_the_family_and_the_classes() {
        for (name, family, official) in [
            ("deit_tiny_patch16_224", "DeiT", Layout::Timm),
            ("swin_tiny_patch4_window7_224", "Swin", Layout::Official),
            ("pit_ti_224", "PiT", Layout::Official),
            ("cvt_13", "CvT", Layout::Official),
        ] {
            let overrides = ModelOverrides {
                img_size: Some(32),
                num_classes: Some(5),
                ..ModelOverrides::default()
            };
            let config = ModelConfig::by_name(name).unwrap();
            let config = config.with(&overrides).unwrap();
            let model = config.init(&Device::flex(), Key::new(1)).unwrap();
            let timm = StateDict::from_model(&model).unwrap();
            for (weights, layout) in [
                (model.rename(&timm, Layout::Official), official),
                // timm has no CvT.
                (
                    timm,
                    if family == "CvT" {
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
