#![doc = include_str!("../README.md")]
//!
//! # Operations
//! | | |
//! |---|---|
//! | [`attention()`], [`self_attention()`] | `softmax(top_k(scale q k^T + bias)) v` in one operation |
//! | [`knn_softmax()`] | from scores to the probabilities of the kept keys |
//! | [`top_k`] | which keys are kept, and which of equal ones: the rule, and the selection composed of Burn's operations |
//! | [`linear()`], [`linear_add()`], [`linear_with()`] | a linear layer, by itself, added to a residual, or given by its weight |
//! | [`mlp()`] | two linear layers with a GELU between them, by itself or added to a residual |
//! | [`Residual`] | a branch added to a residual stream, whole or scaled sample by sample |
//! | [`layer_norm()`], [`rounded_layer_norm()`] | layer normalisation over the last dimension, and with its output in another type |
//! | [`gelu()`], [`quick_gelu()`] | GELU with the exact error function, or with a sigmoid |
//! | [`batch_norm()`], [`batch_norm_train()`] | batch normalisation, with a residual and a ReLU where they follow |
//! | [`max_pool2d()`] | max pooling of images |
//! | [`conv2d()`] | a convolution, also of each channel by itself |
//! | [`resize_bilinear()`] | maps of another size |
//! | [`roi_align()`] | the contents of boxes as maps of one size |
//! | [`pixel_cross_entropy()`] | the cross-entropy of every pixel |
//! | [`unfold()`], [`fold()`], [`Window`] | the windows of an image as columns, their sum, and how windows move |
//! | [`reorder_rows()`] | rows in another order, with zeros between them |
//! | [`permute()`], [`permute_reshape()`] | dimensions reordered, joined and divided |
//! | [`contiguous_gradient()`] | works around a Burn bug with convolution gradients on GPUs |
//! | [`widened()`], [`in_type()`] | casts between half types and f32 |
//! | [`adamw()`], [`Guard`], [`square_sum()`], [`square_sums()`] | optimizer updates that the device can skip, norms for clipping |
//! | [`rank_sum()`] | a sum over the processes that train together |
//! | [`Object`], [`ObjectMask`] | what a network learns of an image with objects |
//! | [`on_pool()`] | many operations in a row on the threads of the CPU |
//! | [`Key`], [`Phase`] | keyed randomness: a seed gives one result |
//!
//! # Layout
//! Each operation has a folder:
//!
//! - `mod.rs`: the public function, and the trait of the backends with a portable default implementation if there is
//!   one; its implementation for `Autodiff` is the backward pass;
//! - `cpu.rs`: the implementation for Burn's `Flex` backend;
//! - `gpu.rs` and `gpu/kernel.rs`: the launches and kernels for the CubeCL runtimes, if Burn's operations are not enough.
//!
//! `cpu/` and `gpu/` contain shared code, and `autodiff.rs` registers backward passes. A long loop over numbers on the CPU belongs into
//! `wide!` (`cpu/wide.rs`); elsewhere it runs with the vectors that every CPU has.

mod adamw;
mod attention;
mod autodiff;
mod batch_norm;
mod cast;
mod collective;
mod contiguous;
mod conv;
mod convert;
mod cpu;
mod gelu;
#[cfg(feature = "cube")]
mod gpu;
mod knn_softmax;
mod layer_norm;
mod linear;
mod max_pool;
mod mlp;
mod objects;
mod optional;
mod pixel_cross_entropy;
mod pool;
mod random;
#[cfg(feature = "export")]
mod record;
mod residual;
mod resize;
mod roi_align;
mod rows;
pub mod top_k;
mod unfold;
mod window;

pub use adamw::{AdamWInput, AdamWStep, Guard, adamw, square_sum, square_sums};
pub use attention::{AttentionSettings, Packing, attention, self_attention};
pub use batch_norm::{BatchNormInput, Normalised, batch_norm, batch_norm_train};
pub use cast::widened;
pub use collective::{Collective, Group, current_group, rank_sum, with_group};
pub use contiguous::{contiguous_gradient, permute, permute_reshape};
pub use conv::conv2d;
pub use convert::in_type;
pub use cpu::bf16::cpu_multiplies_bf16;
pub use gelu::{Gelu, gelu, quick_gelu};
pub use knn_softmax::knn_softmax;
pub use layer_norm::{layer_norm, rounded_layer_norm};
pub use linear::{linear, linear_add, linear_with};
pub use max_pool::max_pool2d;
pub use mlp::mlp;
pub use objects::{Object, ObjectMask};
pub use pixel_cross_entropy::{PixelAverage, pixel_cross_entropy};
pub use pool::on_pool;
pub use random::{Key, Phase};
pub use residual::Residual;
pub use resize::resize_bilinear;
pub use roi_align::{Region, roi_align};
pub use rows::{RowOrder, reorder_rows};
pub use unfold::{fold, unfold};
pub use window::Window;
