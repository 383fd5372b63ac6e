//! What the kernels of the GPU runtimes share: which units have a row together, how these put their
//! results together, and how they find the keys that a row keeps.

pub(super) mod keys;
pub(super) mod launch;
pub(super) mod select;
pub(super) mod team;
#[cfg(all(test, feature = "wgpu"))]
pub(super) mod testing;
