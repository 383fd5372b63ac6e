//! Mask R-CNN (He et al., 2017) as mmdetection trains it on COCO: a feature pyramid, a network that proposes regions, and heads that
//! classify, refine and outline them.

mod anchors;
mod box_head;
mod config;
mod cost;
mod detect;
mod fpn;
mod layers;
mod losses;
mod mask_head;
mod network;
mod objects;
mod outline;
mod paste;
mod regions;
mod rpn;
mod targets;
mod train;

pub use box_head::{BoxHead, BoxOutput};
pub use config::MaskRcnnConfig;
pub use detect::Detection;
pub use fpn::Fpn;
pub use losses::DetectLosses;
pub use mask_head::{MASK_SIDE, MaskHead};
pub use network::{MaskRcnn, MaskRcnnHeads};
pub use objects::{Frame, Objects};
pub use paste::paste;
pub use rpn::{RpnHead, RpnOutput};

#[cfg(test)]
mod tests;
