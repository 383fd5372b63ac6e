//! From tensors to tensors: what a vision transformer spends its time in, as custom operations of Burn.
//!
//! - [`attention()`], [`self_attention()`]: `softmax(top_k(scale q k^T)) v` as one operation.
//! - [`knn_softmax()`]: from scores to the probabilities of the kept keys.
//! - [`gelu()`], [`linear()`], [`linear_add()`], [`layer_norm()`], [`depthwise_conv2d()`]: the layers around it.
//! - [`contiguous_gradient`]: works around a bug of Burn's with convolution gradients on GPUs.
//! - [`adamw()`], [`square_sum()`]: what an optimizer does to every parameter.
//! - [`Key`], [`Phase`]: keyed randomness, so that a seed gives one result.
//!
//! Each operation has a folder, in one pattern:
//!
//! - `mod.rs`: a trait that every backend implements, its portable default, the public function;
//! - `flex.rs`: plain Rust for the CPU; `cube.rs`: a kernel for the GPU runtimes;
//! - `autodiff.rs`: the backward pass.

mod attention;
mod buffer;
mod contiguous;
mod depthwise;
mod gelu;
#[cfg(feature = "cube")]
mod kernels;
mod knn_softmax;
mod layer_norm;
mod linear;
mod math;
mod matrix;
#[cfg(test)]
#[path = "../tests/all/naive.rs"]
mod naive;
mod optimizer;
pub mod portable;
mod random;
mod rows;

pub use attention::{AttentionOps, AttentionSettings, attention, self_attention};
pub use contiguous::{LayoutOps, contiguous_gradient};
pub use depthwise::{DepthwiseOps, depthwise_conv2d};
pub use gelu::{GeluOps, gelu};
pub use knn_softmax::{KnnOps, knn_softmax};
pub use layer_norm::{LayerNormOps, layer_norm};
pub use linear::{LinearOps, linear, linear_add};
pub use optimizer::{AdamWStep, OptimizerOps, adamw, square_sum};
pub use random::{Key, Phase};

use burn::backend::{
    Backend, TensorMetadata,
    autodiff::{NodeId, grads::Gradients},
    tensor::FloatTensor,
};
use burn::tensor::{DType, FloatDType};

/// Hands the parents of an operation, those that want one, their gradients.
fn register<B: Backend, const N: usize>(
    grads: &mut Gradients,
    parents: [Option<NodeId>; N],
    values: [FloatTensor<B>; N],
) {
    for (parent, value) in parents.into_iter().zip(values) {
        if let Some(parent) = parent {
            grads.register::<B>(parent, value);
        }
    }
}

/// In f32, in which everything is computed.
fn widen<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    match x.dtype() {
        DType::F32 => x,
        _ => B::float_cast(x, FloatDType::F32),
    }
}

/// In the type that the caller came with.
fn narrow<B: Backend>(x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match dtype {
        DType::F32 => x,
        dtype => B::float_cast(x, dtype.into()),
    }
}
