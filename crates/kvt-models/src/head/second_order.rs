//! Second-order pooling: logits from the covariance of the patches, as So-ViT's classifier has it beside its
//! class token (Xie et al. 2021, <https://arxiv.org/abs/2104.10935v1>; `src/representation/covariance.py` and
//! `src/normalization/svPN.py` of the original).

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use kvt_attention::Dropout;
use kvt_ops::{Phase, linear};

use crate::layers::{BatchNorm, BatchNormSettings, Conv2d, ConvSettings, Init};

/// Added to the root of the singular value by which the remainder is divided.
const REMAINDER_EPSILON: f64 = 1e-5;
/// The minimum of squared norms in denominators: PyTorch's `normalize` has the minimum norm 1e-12.
const LEAST_SQUARE: f64 = 1e-24;

/// Logits from the cross-covariance of two projections of the patches, normalised by its largest singular value.
/// The fields and those below them carry the original's names.
#[derive(Module, Debug)]
pub(crate) struct SecondOrder {
    representation: Covariance,
    normalization: SingularValues,
    visual_fc: Linear,
    #[module(skip)]
    drop: f64,
}

/// The sizes of a [`SecondOrder`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecondOrderSize {
    /// Channels of a token.
    pub dim: usize,
    /// Channels of the two projections.
    pub cov_dims: [usize; 2],
    pub classes: usize,
    /// Dropout of the normalised covariance.
    pub drop: f64,
}

#[derive(Module, Debug)]
struct Covariance {
    /// Of each projection; a ReLU follows.
    conv_dr_block: [(Conv2d, BatchNorm); 2],
}

/// Singular value power normalisation (svPN) by one step of a power iteration.
#[derive(Module, Debug)]
struct SingularValues {
    /// Where the iteration starts, `[cov_dims[0]]`.
    weight: Param<Tensor<1>>,
}

impl SecondOrderSize {
    fn projection(self, channels: usize) -> ConvSettings {
        ConvSettings::pointwise(self.dim, channels)
    }

    /// Entries of a covariance.
    fn entries(self) -> usize {
        self.cov_dims.into_iter().product()
    }

    /// Trainable parameters.
    pub(crate) fn params(self) -> usize {
        let projections = self
            .cov_dims
            .map(|channels| self.projection(channels).params() + 2 * channels);
        let [start, _] = self.cov_dims;
        projections.into_iter().sum::<usize>() + start + (self.entries() + 1) * self.classes
    }

    /// Multiply-accumulate operations for `patches` patches: the projections, the covariance and the last layer. The
    /// normalisation is left out, as all norms are.
    pub(crate) fn macs(self, patches: usize) -> usize {
        let [rows, columns] = self.cov_dims;
        let of_patch = self.dim * (rows + columns) + self.entries();
        patches * of_patch + self.entries() * self.classes
    }
}

impl SecondOrder {
    /// With the original's initialisation.
    pub(crate) fn new(init: &Init<'_>, size: SecondOrderSize) -> Self {
        let representation = init.child("representation").child("conv_dr_block");
        let block = |number: usize| {
            let channels = size.cov_dims[number];
            let init = representation.child(&number.to_string());
            (
                init.conv_kaiming_fan_out("0", size.projection(channels)),
                init.batch_norm(channels, BatchNormSettings::default()),
            )
        };
        Self {
            representation: Covariance {
                conv_dr_block: [block(0), block(1)],
            },
            normalization: SingularValues {
                weight: init
                    .child("normalization")
                    .normal("weight", [size.cov_dims[0]], 1.0),
            },
            visual_fc: init.linear("visual_fc", size.entries(), size.classes, true),
            drop: size.drop,
        }
    }

    /// # Shapes
    ///
    /// Patches `[batch, patches, dim]` to logits `[batch, classes]`.
    pub(crate) fn forward(&self, patches: &Tensor<3>, phase: Phase) -> Tensor<2> {
        let covariance = self.representation.forward(patches, phase);
        let weight = self.normalization.weight.val();
        let vector = power_normalised(covariance, weight).flatten(1, 2);
        let dropout = Dropout::in_phase(phase.named("head_drop"), self.drop);
        linear(&self.visual_fc, Dropout::apply_any(dropout, vector))
    }
}

impl Covariance {
    /// # Shapes
    ///
    /// Patches `[batch, patches, dim]` to covariances `[batch, cov_dims[0], cov_dims[1]]`.
    fn forward(&self, patches: &Tensor<3>, phase: Phase) -> Tensor<3> {
        let count = patches.dims()[1];
        let [rows, columns] = self.conv_dr_block.each_ref().map(|(conv, norm)| {
            let projected = conv.forward_tokens(patches.clone());
            let projected = relu(norm.forward_tokens(projected, phase));
            projected.clone() - projected.mean_dim(1)
        });
        rows.swap_dims(1, 2).matmul(columns) / count as f64
    }
}

/// Replaces the largest singular value s of a matrix C by its root, and divides the remainder by that root:
/// `s^0.5 v u^T + (C - s v u^T) / (s^0.5 + 1e-5)`. The singular vectors come from one step of a power iteration,
/// `u = C^T w / |C^T w|` and `v = C u / |C u|`, and so s is `v^T C u`; gradients pass through all of them.
///
/// The original's gradient of s^0.5 is infinite at s = 0, for example if all channels of a projection are dead. Here
/// a root that is negligible beside 1e-5 has no gradient.
///
/// # Shapes
///
/// `[batch, rows, columns]` and `[rows]` to `[batch, rows, columns]`.
fn power_normalised(matrix: Tensor<3>, start: Tensor<1>) -> Tensor<3> {
    let start = start.reshape([1, -1, 1]);
    let u = normalised((matrix.clone() * start).sum_dim(1), 2);
    let projected = (matrix.clone() * u.clone()).sum_dim(2);
    let v = normalised(projected.clone(), 1);
    let s = (v.clone() * projected).sum_dim(1);
    let root = s.clone().clamp_min(LEAST_SQUARE).sqrt();
    let largest = v * u;
    let rest = (matrix - largest.clone() * s) / (root.clone() + REMAINDER_EPSILON);
    largest * root + rest
}

/// Vectors along a dimension divided by their norms, as by PyTorch's `normalize`, with a finite gradient at zero.
fn normalised(x: Tensor<3>, dim: usize) -> Tensor<3> {
    let squares = x.clone().powi_scalar(2).sum_dim(dim);
    x / squares.clamp_min(LEAST_SQUARE).sqrt()
}

#[cfg(test)]
mod tests;
