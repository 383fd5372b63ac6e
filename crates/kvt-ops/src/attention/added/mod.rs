//! What is added to the scores of attention: a bias, a mask, both or nothing.

use burn::backend::{
    Backend, ExtensionType,
    tensor::{BoolTensor, FloatTensor},
};

pub(super) mod cpu;
mod terms;

#[cfg(test)]
mod tests;

/// What is added to the scores `[batch, heads, query, key]` before the selection. Both are broadcast. A mask is `true` where a key is
/// hidden.
///
/// Windows can be folded into the heads, window by window. Then the bias can have the heads of one window, which are
/// repeated for every window, and the mask one matrix for each window.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum Added<B: Backend> {
    Nothing,
    Bias(FloatTensor<B>),
    Mask(BoolTensor<B>),
    Both(FloatTensor<B>, BoolTensor<B>),
}

impl<B: Backend> Added<B> {
    pub(super) fn new(bias: Option<FloatTensor<B>>, mask: Option<BoolTensor<B>>) -> Self {
        match (bias, mask) {
            (None, None) => Self::Nothing,
            (Some(bias), None) => Self::Bias(bias),
            (None, Some(mask)) => Self::Mask(mask),
            (Some(bias), Some(mask)) => Self::Both(bias, mask),
        }
    }

    /// The inverse of [`new`](Self::new).
    pub(super) fn into_parts(self) -> (Option<FloatTensor<B>>, Option<BoolTensor<B>>) {
        match self {
            Self::Nothing => (None, None),
            Self::Bias(bias) => (Some(bias), None),
            Self::Mask(mask) => (None, Some(mask)),
            Self::Both(bias, mask) => (Some(bias), Some(mask)),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The bias, if there is one.
    pub(super) fn bias(&self) -> Option<FloatTensor<B>> {
        self.clone().into_parts().0
    }
}
