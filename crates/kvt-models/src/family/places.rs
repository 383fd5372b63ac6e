//! Places that take only softmax attention, and the places where other kinds can be used.

use kvt_attention::SoftmaxOnly;

/// The families whose blocks take every kind of attention.
const HELP: &str = "use `dense` or `knn` here, or a ViT, PiT, CvT, T2T-ViT, TNT or So-ViT, whose blocks take every kind";

/// A place that takes only softmax attention; `reason` says what is there, as the end of "cannot be used where".
pub(crate) const fn softmax_only(reason: &'static str) -> Option<SoftmaxOnly> {
    Some(SoftmaxOnly { reason, help: HELP })
}
