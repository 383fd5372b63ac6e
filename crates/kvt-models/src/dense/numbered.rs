//! Lists of modules, which PyTorch numbers.

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
