//! Building blocks of the kernels for the GPU runtimes: how rows are divided among threads, how the threads of a row
//! exchange results, and how they select the kept keys of a row.

pub(crate) mod launch;
pub(crate) mod order_key;
pub(crate) mod row_group;
pub(crate) mod select;
#[cfg(all(test, feature = "wgpu"))]
pub(crate) mod testing;
