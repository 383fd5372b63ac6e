//! The parameters of the network under their names in files, which are mmdetection's.

use super::MaskRcnn;
use crate::dense::{DenseKind, files, state};
use crate::model::Parameter;
use crate::weights::{LoadReport, StateDict, WeightsError};

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
        let parts = [
            self.pyramid.state_dict()?,
            state::state_dict(&self.neck, NECK)?,
            state::state_dict(&self.rpn_head, RPN_HEAD)?,
            state::state_dict(&self.box_head, BOX_HEAD)?,
            state::state_dict(&self.mask_head, MASK_HEAD)?,
        ];
        Ok(parts.into_iter().flatten().collect())
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
        let unused = files::unused(rows, state, &pyramid, &CLASSIFIERS)?;
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
