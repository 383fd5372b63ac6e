//! Building blocks of the kernels for the GPU runtimes: how rows are spread over units, how the units of a
//! row exchange results, and how they find the keys that a row keeps.

pub(crate) mod launch;
pub(crate) mod order_key;
pub(crate) mod row_group;
pub(crate) mod select;
#[cfg(all(test, feature = "wgpu"))]
pub(crate) mod testing;
