//! What heads share: lists of modules, which PyTorch numbers, and the sizes of maps.

use burn::tensor::Tensor;

use crate::layers::Init;

/// A module for each size, named by its place.
pub(super) fn numbered<M>(
    init: &Init<'_>,
    sizes: &[usize],
    module: impl Fn(&Init<'_>, usize) -> M,
) -> Vec<M> {
    let modules = sizes.iter().enumerate();
    let modules = modules.map(|(at, size)| module(&init.child(&at.to_string()), *size));
    modules.collect()
}

/// Height and width of a map.
pub(super) fn size(map: &Tensor<4>) -> [usize; 2] {
    let [_, _, height, width] = map.dims();
    [height, width]
}
