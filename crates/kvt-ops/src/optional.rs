//! Inputs of an operation that may be missing: backend extensions take no `Option`.

use burn::backend::{Backend, ExtensionType, tensor::FloatTensor};

/// A tensor, or none.
#[derive(ExtensionType)]
pub(crate) enum Optional<B: Backend> {
    Given(FloatTensor<B>),
    Missing,
}

impl<B: Backend> Optional<B> {
    pub(crate) fn of(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Missing, Self::Given)
    }

    pub(crate) fn get(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Missing => None,
        }
    }
}
