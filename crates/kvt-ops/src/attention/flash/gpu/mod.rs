//! Flash attention on the CubeCL runtimes: kernel launches.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use backward_keys::flash_backward_keys_kernel;
use backward_queries::flash_backward_queries_kernel;
use forward::flash_forward_kernel;
use plan::{FlashPlan, Sizes, width};

use crate::attention::added::Added;
use crate::attention::{AttentionOps, AttentionSettings, composed};
use crate::gpu::launch::{address, cube_count, empty};

mod backward_keys;
mod backward_queries;
mod forward;
mod plan;
mod row;
pub(in crate::attention) mod saved;
mod tile;

impl AttentionOps for CubeBackend {
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [batch, heads, queries, _] = q.shape().dims();
        let words = saved::words(k.shape()[2], settings.kept);
        let saved = empty(&q, Shape::new([batch, heads, queries, words]), DType::F32);
        let inputs = [q, k, v];
        let out = forward(&inputs, &saved, settings).unwrap_or_else(|| {
            let limit = composed::limit::<Self>(&inputs[0]);
            composed::forward::<Self>(inputs, &Added::Nothing, settings, limit).0
        });
        (out, saved)
    }

    fn flash_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [q, k, v];
        match backward(&inputs, &saved, &d_out, settings) {
            Some(gradients) => gradients.into(),
            None => composed::backward_from_inputs::<Self>(inputs, d_out, settings).into(),
        }
    }
}

/// Queries, keys and values, or their gradients.
type Three = [CubeTensor; 3];

/// A problem that the kernels can solve.
struct Flash {
    heads: usize,
    sizes: Sizes,
    forward: FlashPlan,
    backward: FlashPlan,
}

impl Flash {
    /// `None` if rows are too long for the shared memory of the device, vectors are too long for its workgroups, or the
    /// type is not f32 or a half type. [`attention`](crate::attention()) has checked that the tensors fit together.
    fn new([q, _, v]: [&CubeTensor; 3], kept: usize) -> Option<Self> {
        let [batch, heads, queries, head_dim] = q.shape().dims();
        let [_, _, keys, value_dim] = v.shape().dims();
        let fits = matches!(q.dtype, DType::F32 | DType::F16 | DType::BF16);
        if !fits || batch * heads * queries == 0 {
            return None;
        }
        let sizes = Sizes {
            keys,
            head_dim,
            value_dim,
        };
        let hardware = &q.client.properties().hardware;
        let select = kept < keys;
        let flash = Self {
            heads: batch * heads,
            sizes,
            forward: FlashPlan::forward(hardware, sizes, select)?,
            backward: FlashPlan::backward(hardware, sizes, select)?,
        };
        // The number of workgroups must fit in a u32.
        u32::try_from(flash.heads * queries.max(keys)).ok()?;
        Some(flash)
    }

    /// Workgroups for `rows` rows per head, and their size.
    fn cubes(&self, rows: usize, plan: FlashPlan, x: &CubeTensor) -> (CubeCount, CubeDim) {
        let cubes = self.heads * rows.div_ceil(plan.rows);
        let count = cube_count(x, cubes as u32);
        (count, CubeDim::new_1d(plan.units as u32))
    }
}

/// The output, with the row statistics written to `saved`; `None` if the kernels cannot run.
fn forward(inputs: &Three, saved: &CubeTensor, settings: AttentionSettings) -> Option<CubeTensor> {
    let flash = Flash::new(inputs.each_ref(), settings.kept)?;
    let [q, k, v] = inputs.clone().map(into_contiguous);
    let [batch, heads, queries, _] = q.shape().dims();
    let sizes = flash.sizes;
    let shape = Shape::new([batch, heads, queries, sizes.value_dim]);
    let out = empty(&q, shape, q.dtype);
    let (client, dtype) = (q.client.clone(), q.dtype);
    let (count, dim) = flash.cubes(queries, flash.forward, &q);
    flash_forward_kernel::launch(
        &client,
        count,
        dim,
        address(&[&q, &k, &v, saved, &out]),
        width(sizes.head_dim),
        width(sizes.value_dim),
        q.into_tensor_arg(),
        k.into_tensor_arg(),
        v.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        saved.clone().into_tensor_arg(),
        flash.heads as u32,
        queries as u32,
        sizes.keys as u32,
        settings.kept as u32,
        settings.scale as f32,
        flash.forward,
        dtype_to_storage_type(dtype),
    );
    Some(out)
}

/// The gradients of queries, keys and values, if [`forward`] ran its kernels.
fn backward(
    inputs: &Three,
    saved: &CubeTensor,
    d_out: &CubeTensor,
    settings: AttentionSettings,
) -> Option<Three> {
    let flash = Flash::new(inputs.each_ref(), settings.kept)?;
    let [q, k, v] = inputs.clone().map(into_contiguous);
    let d_out = into_contiguous(d_out.clone());
    let grads = [&q, &k, &v].map(|x| empty(x, x.shape(), x.dtype));
    let [batch, heads, queries, _] = q.shape().dims();
    let delta = empty(&q, Shape::new([batch, heads, queries, 1]), DType::F32);
    let sizes = flash.sizes;
    let (client, dtype) = (q.client.clone(), q.dtype);
    let address = address(&[&q, &k, &v, saved, &d_out]);
    let [q_grad, k_grad, v_grad] = grads.clone();
    let (count, dim) = flash.cubes(queries, flash.backward, &q);
    flash_backward_queries_kernel::launch(
        &client,
        count,
        dim,
        address,
        width(sizes.head_dim),
        width(sizes.value_dim),
        q.clone().into_tensor_arg(),
        k.clone().into_tensor_arg(),
        v.clone().into_tensor_arg(),
        d_out.clone().into_tensor_arg(),
        saved.clone().into_tensor_arg(),
        q_grad.into_tensor_arg(),
        delta.clone().into_tensor_arg(),
        flash.heads as u32,
        queries as u32,
        sizes.keys as u32,
        settings.scale as f32,
        flash.backward,
        dtype_to_storage_type(dtype),
    );
    let (count, dim) = flash.cubes(sizes.keys, flash.backward, &q);
    flash_backward_keys_kernel::launch(
        &client,
        count,
        dim,
        address,
        width(sizes.head_dim),
        width(sizes.value_dim),
        q.into_tensor_arg(),
        k.into_tensor_arg(),
        v.into_tensor_arg(),
        d_out.into_tensor_arg(),
        saved.clone().into_tensor_arg(),
        delta.into_tensor_arg(),
        k_grad.into_tensor_arg(),
        v_grad.into_tensor_arg(),
        flash.heads as u32,
        queries as u32,
        sizes.keys as u32,
        settings.scale as f32,
        flash.backward,
        dtype_to_storage_type(dtype),
    );
    Some(grads)
}
