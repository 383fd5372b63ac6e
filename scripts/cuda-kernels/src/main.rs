//! `cuda-kernels FOLDER`: the CUDA C++ that CubeCL generates for each kernel and type, a file each.

use std::path::Path;
use std::sync::Arc;

use cubecl::prelude::*;
use cubecl_core::ir::{AddressType, ElemType, FloatKind, TargetProperties};

use offline::{properties, tensor, write};

mod offline;
// The kernels of kvt-ops, in modules of the same names.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
use adamw::gpu::kernel::{StepLaunch, adamw_kernel, sums_kernel};
use attention::flash::gpu::backward_keys::flash_backward_keys_kernel;
use attention::flash::gpu::backward_queries::flash_backward_queries_kernel;
use attention::flash::gpu::forward::flash_forward_kernel;
use attention::flash::gpu::plan::{FlashPlan, Sizes, width};
use gpu::row_group::RowStrategy;
use knn_softmax::gpu::kernel::{knn_softmax_backward_kernel, knn_softmax_kernel};
use layer_norm::gpu::kernel::{
    block_sums_kernel, column_sums_kernel, layer_norm_backward_kernel, layer_norm_kernel,
};

/// Rows and keys of the tensors that the kernels are made for; they decide nothing in the code.
const SHAPE: [usize; 2] = [64, 197];

/// Writes a kernel, made for these arguments, into a file of this name.
macro_rules! kernel {
    ($folder:expr, $name:expr, $kernel:ident, $($argument:expr),* $(,)?) => {
        write($folder, $name, &$kernel::create_dummy_kernel(
            properties(),
            Arc::new(TargetProperties::default()),
            CubeCount::Static(1, 1, 1),
            $($argument),*
        ))
    };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: cuda-kernels FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let types = [
        ("f32", FloatKind::F32),
        ("f16", FloatKind::F16),
        ("bf16", FloatKind::BF16),
    ];
    let addresses = [("", AddressType::U32), ("_64", AddressType::U64)];
    // With the numbers of a row of 197 keys that a thread holds, if it does not have too many.
    let strategies = [
        ("unit", RowStrategy::Unit, 0, CubeDim::new_1d(64)),
        ("plane", RowStrategy::Plane, 8, CubeDim::new_2d(32, 4)),
        (
            "cube",
            RowStrategy::Cube { units: 64, size: 8 },
            32,
            CubeDim::new_1d(64),
        ),
    ];
    for (name, kind) in types {
        let kind = ElemType::Float(kind);
        for (wide, address) in addresses {
            for (label, strategy, held, dim) in strategies {
                rows(
                    folder,
                    &format!("{label}_{name}{wide}"),
                    kind,
                    address,
                    strategy,
                    held,
                    dim,
                )?;
            }
            numbers(folder, &format!("{name}{wide}"), kind, address)?;
        }
        // Dense and k-NN; vectors of four, and a head that has no whole number of any.
        for (select, head_dim) in [(false, 64), (true, 64), (true, 33)] {
            for (wide, address) in addresses {
                let name = format!(
                    "{head_dim}_{}_{name}{wide}",
                    if select { "knn" } else { "dense" }
                );
                flash(folder, &name, kind, address, select, head_dim)?;
            }
        }
    }
    Ok(())
}

/// The row-wise kernels.
fn rows(
    folder: &Path,
    name: &str,
    kind: ElemType,
    address: AddressType,
    strategy: RowStrategy,
    held: usize,
    dim: CubeDim,
) -> Result<(), Box<dyn std::error::Error>> {
    let [rows, width] = SHAPE.map(|size| size as u32);
    kernel!(
        folder,
        &format!("knn_softmax_{name}"),
        knn_softmax_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        rows,
        width,
        100,
        strategy,
        8,
        held,
        kind,
    )?;
    kernel!(
        folder,
        &format!("knn_softmax_backward_{name}"),
        knn_softmax_backward_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        tensor(),
        rows,
        width,
        1.0,
        strategy,
        8,
        kind,
    )?;
    kernel!(
        folder,
        &format!("layer_norm_{name}"),
        layer_norm_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        rows,
        width,
        1e-6,
        strategy,
        8,
        kind,
    )?;
    kernel!(
        folder,
        &format!("layer_norm_backward_{name}"),
        layer_norm_backward_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        rows,
        width,
        strategy,
        8,
        kind,
    )
}

/// The kernels that go over columns or single numbers.
fn numbers(
    folder: &Path,
    name: &str,
    kind: ElemType,
    address: AddressType,
) -> Result<(), Box<dyn std::error::Error>> {
    let [rows, width] = SHAPE.map(|size| size as u32);
    let dim = CubeDim::new_1d(64);
    kernel!(
        folder,
        &format!("column_sums_{name}"),
        column_sums_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        rows,
        width,
        32,
        kind,
    )?;
    kernel!(
        folder,
        &format!("block_sums_{name}"),
        block_sums_kernel,
        dim,
        address,
        tensor(),
        tensor(),
        tensor(),
        width,
        2,
        kind,
    )?;
    // As many parameters as the bindings of the device leave room for.
    let four = || [(); 4].map(|()| tensor()).into_iter().collect();
    let step = |()| StepLaunch::new(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0);
    kernel!(
        folder,
        &format!("adamw_{name}"),
        adamw_kernel,
        dim,
        address,
        four(),
        four(),
        four(),
        four(),
        tensor(),
        four(),
        four(),
        four(),
        [(); 4].map(step).into_iter().collect(),
        [rows * width; 4].into_iter().collect(),
        4,
        kind,
    )?;
    let strategy = RowStrategy::Cube {
        units: 64,
        size: 64,
    };
    let single = ElemType::Float(FloatKind::F32);
    let two = [
        ("square", true, kind, single),
        ("partial", false, single, kind),
    ];
    for (of, square, from, to) in two {
        kernel!(
            folder,
            &format!("{of}_sums_{name}"),
            sums_kernel,
            dim,
            address,
            tensor(),
            tensor(),
            rows * width,
            square,
            strategy,
            from,
            to,
        )?;
    }
    Ok(())
}

/// The three kernels of attention without stored scores.
fn flash(
    folder: &Path,
    name: &str,
    kind: ElemType,
    address: AddressType,
    select: bool,
    head_dim: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let hardware = &properties().hardware;
    let sizes = Sizes {
        keys: SHAPE[1],
        head_dim,
        value_dim: head_dim,
    };
    let (Some(forward), Some(backward)) = (
        FlashPlan::forward(hardware, sizes, select),
        FlashPlan::backward(hardware, sizes, select),
    ) else {
        return Err("no plan".into());
    };
    let (keys, width) = (SHAPE[1] as u32, width(head_dim));
    kernel!(
        folder,
        &format!("flash_forward_{name}"),
        flash_forward_kernel,
        CubeDim::new_1d(forward.units as u32),
        address,
        width,
        width,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        1,
        keys,
        keys,
        100,
        1.0,
        forward,
        kind,
    )?;
    kernel!(
        folder,
        &format!("flash_backward_queries_{name}"),
        flash_backward_queries_kernel,
        CubeDim::new_1d(backward.units as u32),
        address,
        width,
        width,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        1,
        keys,
        keys,
        1.0,
        backward,
        kind,
    )?;
    kernel!(
        folder,
        &format!("flash_backward_keys_{name}"),
        flash_backward_keys_kernel,
        CubeDim::new_1d(backward.units as u32),
        address,
        width,
        width,
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        tensor(),
        1,
        keys,
        keys,
        1.0,
        backward,
        kind,
    )
}
