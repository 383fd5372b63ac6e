//! The parameters of the network under their names in files, which are mmdetection's.

use std::collections::BTreeSet;

use super::MaskRcnn;
use crate::dense::pyramid::{BACKBONE, is_used};
use crate::dense::{DenseKind, state};
use crate::model::Parameter;
use crate::weights::{LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// How the names of the neck and the heads begin in files.
pub(super) const NECK: &str = "neck.";
pub(super) const RPN_HEAD: &str = "rpn_head.";
pub(super) const BOX_HEAD: &str = "roi_head.bbox_head.";
pub(super) const MASK_HEAD: &str = "roi_head.mask_head.";
/// How the names of the layers begin whose size depends on the number of classes.
pub const CLASSIFIERS: [&str; 3] = [
    "roi_head.bbox_head.fc_cls.",
    "roi_head.bbox_head.fc_reg.",
    "roi_head.mask_head.conv_logits.",
];
/// How the names of the maps' norms begin, after that of the backbone.
const NORMS: &str = "norm";
/// Parameters whose names contain one of these do not decay in the recipes of Swin and of Twins. Biases do.
const UNDECAYED: [&str; 4] = [
    "norm",
    "relative_position_bias_table",
    "absolute_pos_embed",
    "pos_block",
];
/// PyTorch's counter of batches, which nothing reads.
const COUNTER: &str = ".num_batches_tracked";

/// Whether weight decay applies to a parameter of this name.
pub(super) fn decays(name: &str) -> bool {
    !UNDECAYED.iter().any(|part| name.contains(part))
}

/// A parameter as the backbone's model names it; `None` for those of the norms, the neck and the heads.
pub(super) fn of_model(parameter: &Parameter) -> Option<Parameter> {
    let name = parameter.name.strip_prefix(BACKBONE)?;
    (!name.starts_with(NORMS)).then(|| Parameter {
        name: name.to_owned(),
        ..parameter.clone()
    })
}

impl MaskRcnn {
    /// Every parameter that is trained, in the order of the modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.pyramid.parameters();
        all.extend(state::parameters(&self.neck, NECK));
        all.extend(state::parameters(&self.rpn_head, RPN_HEAD));
        all.extend(state::parameters(&self.box_head, BOX_HEAD));
        all.extend(state::parameters(&self.mask_head, MASK_HEAD));
        all
    }

    /// The content of a file.
    ///
    /// # Errors
    ///
    /// If the device cannot be read.
    pub fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let mut all = self.pyramid.state_dict()?;
        let parts = [
            state::state_dict(&self.neck, NECK)?,
            state::state_dict(&self.rpn_head, RPN_HEAD)?,
            state::state_dict(&self.box_head, BOX_HEAD)?,
            state::state_dict(&self.mask_head, MASK_HEAD)?,
        ];
        for (name, data) in parts.into_iter().flatten() {
            all.insert(name, data);
        }
        Ok(all)
    }

    /// This network with the weights of a file, and the names in the file that it does not have. Counters of batch norms, and what
    /// the backbone's classifier has, are passed over.
    ///
    /// # Errors
    ///
    /// If something is missing, has another shape or is not floating point: by name and shape, first of the backbone, then of the
    /// neck and the heads.
    pub fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (pyramid, LoadReport { mut rows }) = self.pyramid.load(state, DenseKind::Network)?;
        let (neck, of_neck) = state::load(self.neck, NECK, state)?;
        let (rpn_head, of_rpn) = state::load(self.rpn_head, RPN_HEAD, state)?;
        let (box_head, of_boxes) = state::load(self.box_head, BOX_HEAD, state)?;
        let (mask_head, of_masks) = state::load(self.mask_head, MASK_HEAD, state)?;
        rows.extend([of_neck, of_rpn, of_boxes, of_masks].into_iter().flatten());
        let report = LoadReport { rows };
        if !report.fits() {
            return Err(WeightsError::Incompatible {
                misfit: misfit(&report),
                report,
            });
        }
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
        let unused = others.map(str::to_owned).collect();
        let loaded = Self {
            pyramid,
            neck,
            rpn_head,
            box_head,
            mask_head,
            config: self.config,
        };
        Ok((loaded, unused))
    }
}

/// Which parts of the network do not fit.
fn misfit(report: &LoadReport) -> Misfit {
    let of_classes = |row: &LoadRow| CLASSIFIERS.iter().any(|part| row.name.starts_with(part));
    let is_misfit = |row: &&LoadRow| matches!(row.outcome, Outcome::Missing | Outcome::Mismatched);
    match report.rows.iter().filter(is_misfit).all(of_classes) {
        true => Misfit::Head,
        false => Misfit::Others,
    }
}
