//! Published weights under the names of our dense networks.

use super::DenseKind;
use super::pyramid::{BACKBONE, is_used};
use crate::family::families::ModelConfig;
use crate::weights::{StateDict, WeightsError, recognise};

/// How the names of a network's heads begin, those of UPerNet and of Mask R-CNN; other names without the backbone's prefix are not of
/// a network.
const HEADS: [&str; 4] = ["decode_head.", "neck.", "rpn_head.", "roi_head."];

/// Weights for a dense network.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseWeights {
    /// The weights under the names of our files.
    pub state: StateDict,
    /// What they come from.
    pub kind: DenseKind,
}

/// The weights of a file, as [`read`](crate::weights::read) returns them, for a dense network with this model: of a
/// classifier or of a network, from the repository of the model's authors, MMSegmentation, MMDetection, timm or kvt.
///
/// A classifier's head and last norm, and tables that the model computes, are left out. Names that nothing is known of
/// stay, so that loading can report them.
///
/// # Errors
///
/// A model without a pyramid; weights of another family, or of windows of another size.
pub fn read_dense(state: StateDict, model: &ModelConfig) -> Result<DenseWeights, WeightsError> {
    let dense = model
        .dense_family()
        .map_err(|error| WeightsError::Model(Box::new(error)))?;
    let family = model.family();
    let of_backbone = |name: &str| name.starts_with(BACKBONE);
    let is_bare = !state.iter().any(|(name, _)| of_backbone(name));
    let (mut backbone, mut others) = (StateDict::default(), StateDict::default());
    for (name, data) in state {
        match name.strip_prefix(BACKBONE) {
            Some(rest) => backbone.insert(rest, data),
            None if is_bare => backbone.insert(name, data),
            None if family.is_computed(&name) => {}
            None => others.insert(name, data),
        }
    }

    let mut backbone = (dense.to_timm)(backbone);
    family.check_variant(&backbone)?;
    if let Some(known) = recognise(&backbone).filter(|known| known.family != family.name) {
        return Err(WeightsError::OtherFamily {
            found: known.family,
            model: model.name(),
            family: family.name,
        });
    }
    if (family.official.is_official)(&backbone) {
        backbone = backbone.part(|name| Some(family.official.names.own(name)));
    }
    model.of_family().check_dense(&backbone)?;

    let of_head = |name: &str| HEADS.iter().any(|head| name.starts_with(head));
    let kind = if others.iter().any(|(name, _)| of_head(name)) {
        DenseKind::Network
    } else {
        DenseKind::Classifier
    };
    let stays = |name: &str| is_used(family, name) && !family.is_computed(name);
    backbone = backbone.part(|name| stays(name).then(|| format!("{BACKBONE}{name}")));
    Ok(DenseWeights {
        state: backbone.into_iter().chain(others).collect(),
        kind,
    })
}
