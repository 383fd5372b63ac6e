//! Places that take softmax attention alone, and where other kinds of attention can stand instead.

use kvt_attention::SoftmaxOnly;

/// The families in whose blocks every kind of attention stands.
const HELP: &str = "use `dense` or `knn` here, or a DeiT, PiT, CvT, T2T-ViT, TNT or So-ViT, whose blocks take every kind";

/// A place that takes softmax attention alone; `reason` says what is there, as the end of "cannot stand where".
pub(crate) const fn softmax_only(reason: &'static str) -> Option<SoftmaxOnly> {
    Some(SoftmaxOnly { reason, help: HELP })
}
