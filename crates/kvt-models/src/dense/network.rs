//! Networks on a pyramid: their parameters, and their files.

use std::collections::BTreeSet;

use burn::module::{Module, ModuleDisplay, ParamId};

use super::pyramid::{BACKBONE, is_used};
use super::{DenseKind, Pyramid, state};
use crate::model::Parameter;
use crate::network::Network;
use crate::weights::{LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// PyTorch's counter of batches, which nothing reads.
const COUNTER: &str = ".num_batches_tracked";
/// How the names of the layers begin whose size depends on the number of classes, those of UPerNet and of Mask R-CNN.
pub const CLASSIFIERS: [&str; 5] = [
    "decode_head.conv_seg.",
    "auxiliary_head.conv_seg.",
    "roi_head.bbox_head.fc_cls.",
    "roi_head.bbox_head.fc_reg.",
    "roi_head.mask_head.conv_logits.",
];

/// A backbone's maps, and what reads them.
#[derive(Module, Debug)]
pub struct OnPyramid<H: Module> {
    /// From images to maps.
    pub pyramid: Pyramid,
    /// What reads the maps. The paths through its modules are the names of its parameters in files.
    pub(super) heads: H,
}

impl<H: Module> OnPyramid<H> {
    /// This network with a classifier's weights in its backbone, and the outcome for each of them.
    ///
    /// # Errors
    ///
    /// If they do not match.
    pub fn with_classifier(self, weights: &StateDict) -> Result<(Self, LoadReport), WeightsError> {
        let (pyramid, report) = self.pyramid.load(weights, DenseKind::Classifier)?;
        Ok((Self { pyramid, ..self }, report))
    }
}

impl<H: Module + ModuleDisplay> Network for OnPyramid<H> {
    /// Every parameter that is trained, in the order of the modules.
    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.pyramid.parameters();
        all.extend(state::parameters(&self.heads, ""));
        all
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        self.pyramid.decays(parameter)
    }

    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        self.pyramid.decays_by_name(parameter)
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        self.pyramid.layer(parameter)
    }

    fn layers(&self) -> usize {
        self.pyramid.backbone.layers()
    }

    fn frozen(&self) -> Vec<ParamId> {
        self.pyramid.frozen()
    }

    /// The content of a file: parameters and running statistics.
    ///
    /// # Errors
    ///
    /// If the device cannot be read.
    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let heads = state::state_dict(&self.heads, "")?;
        Ok(self
            .pyramid
            .state_dict()?
            .into_iter()
            .chain(heads)
            .collect())
    }

    /// This network with the weights of a file, and the names in the file that it does not have. Counters of batch norms, and what
    /// the backbone's classifier has, are passed over.
    ///
    /// # Errors
    ///
    /// If something is missing, has another shape or is not floating point: by name and shape, first of the backbone, then of the
    /// heads.
    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (pyramid, mut report) = self.pyramid.load(state, DenseKind::Network)?;
        let (heads, of_heads) = state::load(self.heads, "", state, Outcome::Missing)?;
        report.rows.extend(of_heads);
        if !report.fits() {
            let misfit = misfit(&report);
            return Err(WeightsError::Incompatible { report, misfit });
        }
        let unused = unused(&report, state, &pyramid);
        Ok((Self { pyramid, heads }, unused))
    }
}

/// The names in a file that a network does not have, by what became of its parameters.
fn unused(report: &LoadReport, state: &StateDict, pyramid: &Pyramid) -> Vec<String> {
    let rows = report.rows.iter();
    let known = rows.filter(|row| row.outcome != Outcome::Unused);
    let known: BTreeSet<&str> = known.map(|row| row.name.as_str()).collect();
    let family = pyramid.backbone.config.family();
    let is_of_classifier = |name: &str| {
        let name = name.strip_prefix(BACKBONE);
        name.is_some_and(|name| !is_used(family, name))
    };
    let others = state.iter().map(|(name, _)| name);
    let others = others.filter(|name| !known.contains(name) && !name.ends_with(COUNTER));
    let others = others.filter(|name| !is_of_classifier(name));
    others.map(str::to_owned).collect()
}

/// Which parts of the network do not fit.
fn misfit(report: &LoadReport) -> Misfit {
    let of_classes = |row: &LoadRow| CLASSIFIERS.iter().any(|part| row.name.starts_with(part));
    let mut problems = report.rows.iter().filter(|row| row.is_problem());
    if problems.all(of_classes) {
        Misfit::Head
    } else {
        Misfit::Others
    }
}
