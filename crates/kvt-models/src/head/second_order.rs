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

/// Is added to the root of the singular value that what remains is divided by.
const REMAINDER_EPSILON: f64 = 1e-5;
/// The least square of a norm that something is divided by: PyTorch's `normalize` has the least norm 1e-12.
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

/// What decides the size of a [`SecondOrder`].
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

    /// Numbers of a covariance.
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

    /// Multiply-accumulate operations for so many patches: the projections, the covariance and the last layer. The
    /// normalisation is left out, as all norms are.
    pub(crate) fn macs(self, patches: usize) -> usize {
        let [rows, columns] = self.cov_dims;
        let of_patch = self.dim * (rows + columns) + self.entries();
        patches * of_patch + self.entries() * self.classes
    }
}

impl SecondOrder {
    /// The module among those of the classifier, and its name among the parameters.
    pub(crate) const MODULE: (&'static str, &'static str) = ("second_order", "classifier");
    /// The layer of it that depends on the classes, among the parameters.
    pub(crate) const OUTPUT: &'static str = "classifier.visual_fc";

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
                    .standard_normal("weight", [size.cov_dims[0]]),
            },
            visual_fc: init.linear("visual_fc", size.entries(), size.classes, true),
            drop: size.drop,
        }
    }

    /// # Shapes
    ///
    /// Patches `[batch, patches, dim]` to logits `[batch, classes]`.
    pub(crate) fn forward(&self, patches: Tensor<3>, phase: Phase) -> Tensor<2> {
        let covariance = self.representation.forward(patches, phase);
        let weight = self.normalization.weight.val();
        let vector = power_normalised(covariance, weight).flatten(1, 2);
        let vector = match Dropout::in_phase(phase.named("head_drop"), self.drop) {
            Some(dropout) => dropout.apply(vector),
            None => vector,
        };
        linear(&self.visual_fc, vector)
    }
}

impl Covariance {
    /// # Shapes
    ///
    /// Patches `[batch, patches, dim]` to covariances `[batch, cov_dims[0], cov_dims[1]]`.
    fn forward(&self, patches: Tensor<3>, phase: Phase) -> Tensor<3> {
        let count = patches.dims()[1];
        let [rows, columns] = self.conv_dr_block.each_ref().map(|(conv, norm)| {
            let projected = conv.forward_tokens(patches.clone());
            let projected = relu(norm.forward_tokens(projected, phase));
            projected.clone() - projected.mean_dim(1)
        });
        rows.swap_dims(1, 2).matmul(columns) / count as f64
    }
}

/// A matrix C whose largest singular value s becomes its root, and whose other part is divided by that root:
/// `s^0.5 v u^T + (C - s v u^T) / (s^0.5 + 1e-5)`. The singular vectors come from one step of a power iteration,
/// `u = C^T w / |C^T w|` and `v = C u / |C u|`, and so s is `v^T C u`; gradients pass through all of them.
///
/// The original's gradient of s^0.5 is infinite at s = 0, as where all channels of a projection are dead. Here a
/// root so small that it does not show beside 1e-5 has none.
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

/// Vectors along a dimension divided by their norms, as PyTorch's `normalize`, with a gradient at zero.
fn normalised(x: Tensor<3>, dim: usize) -> Tensor<3> {
    let squares = x.clone().powi_scalar(2).sum_dim(dim);
    x / squares.clamp_min(LEAST_SQUARE).sqrt()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use kvt_ops::Key;

    use super::*;

    fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    fn head(size: SecondOrderSize, device: &Device) -> SecondOrder {
        SecondOrder::new(&Init::new(device, Key::new(1)), size)
    }

    const SIZE: SecondOrderSize = SecondOrderSize {
        dim: 3,
        cov_dims: [2, 4],
        classes: 5,
        drop: 0.0,
    };

    /// The numbers of the original's `svPN` for this matrix and start.
    #[test]
    fn the_normalisation_is_the_originals() {
        let device = Device::flex();
        let matrix = [[1.0f32, 0.5], [0.2, -0.3], [0.4, 0.1]];
        let matrix = TensorData::new(matrix.concat(), [1, 3, 2]);
        let start = TensorData::new(vec![1.0f32, 2.0, -1.0], [3]);
        let found = power_normalised(
            Tensor::from_data(matrix, &device),
            Tensor::from_data(start, &device),
        );
        let expected = [
            1.004_372_9,
            0.502_180_4,
            0.200_875_4,
            -0.301_309_8,
            0.401_749_4,
            0.100_435_7,
        ];
        for (found, expected) in values(found).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
        }
    }

    /// Of a diagonal matrix and a start along its first axis the largest singular value is known: its root
    /// stands there, and what remains is divided by the root.
    #[test]
    fn the_largest_singular_value_becomes_its_root() {
        let device = Device::flex();
        let matrix = TensorData::new(vec![9.0f32, 0.0, 0.0, 0.6], [1, 2, 2]);
        let start = TensorData::new(vec![2.0f32, 0.0], [2]);
        let found = values(power_normalised(
            Tensor::from_data(matrix, &device),
            Tensor::from_data(start, &device),
        ));
        for (found, expected) in found.iter().zip([3.0, 0.0, 0.0, 0.2]) {
            assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
        }
    }

    /// The original divides zero by zero in the backward pass.
    #[test]
    fn a_covariance_of_zero_has_finite_gradients() {
        let device = Device::flex().autodiff();
        for scale in [0.0f32, 1e-20, 1e-13, 1e-6] {
            let matrix = TensorData::new(vec![scale, -scale, scale, scale / 2.0], [1, 2, 2]);
            let matrix = Tensor::<3>::from_data(matrix, &device).require_grad();
            let start = TensorData::new(vec![1.0f32, 0.5], [2]);
            let start = Tensor::<1>::from_data(start, &device).require_grad();
            let out = power_normalised(matrix.clone(), start.clone());
            let probe = TensorData::new(vec![1.0f32, -2.0, 0.5, 3.0], [1, 2, 2]);
            let out = out * Tensor::from_data(probe, &device);
            assert!(values(out.clone()).iter().all(|x| x.is_finite()), "{scale}");
            let gradients = out.sum().backward();
            let of_matrix = values(matrix.grad(&gradients).unwrap());
            let of_start = values(start.grad(&gradients).unwrap());
            let all = of_matrix.iter().chain(&of_start);
            assert!(all.clone().all(|x| x.is_finite()), "{scale}: {of_matrix:?}");
            assert!(of_matrix.iter().any(|x| *x != 0.0), "{scale}");
        }
    }

    /// Without its norms, with projections of ones and of one channel, the covariance is worked by hand.
    #[test]
    fn the_covariance_is_of_what_the_projections_leave_above_zero() {
        let device = Device::flex();
        let mut head = head(
            SecondOrderSize {
                dim: 1,
                cov_dims: [2, 1],
                ..SIZE
            },
            &device,
        );
        let weight = |conv: &Conv2d, values: Vec<f32>| {
            let count = values.len();
            let weight = Tensor::from_data(TensorData::new(values, [count, 1, 1, 1]), &device);
            Conv2d::new(Param::from_tensor(weight), None, conv.settings())
        };
        let [first, second] = &mut head.representation.conv_dr_block;
        first.0 = weight(&first.0, vec![1.0, -1.0]);
        second.0 = weight(&second.0, vec![2.0]);
        let patches = TensorData::new(vec![1.0f32, -2.0, 4.0], [1, 3, 1]);
        let found = head
            .representation
            .forward(Tensor::from_data(patches, &device), Phase::Eval);
        // [1, 0, 4] and [0, 2, 0] with [2, 0, 8], each without its mean, 5/3, 2/3 and 10/3.
        let expected = [34.0 / 3.0 - 50.0 / 9.0, -20.0 / 9.0];
        for (found, expected) in values(found).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
        }
    }

    /// A dead projection at the beginning of training.
    #[test]
    fn dead_channels_leave_finite_gradients() {
        let device = Device::flex().autodiff();
        let head = head(SIZE, &device);
        let patches = Tensor::<3>::zeros([2, 4, 3], &device).require_grad();
        let logits = head.forward(patches.clone(), Phase::Train(Key::new(1)));
        let gradients = logits.powi_scalar(2).sum().backward();
        let gradient = values(patches.grad(&gradients).unwrap());
        assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
    }

    #[test]
    fn dropout_is_keyed_and_for_training() {
        let device = Device::flex();
        let (plain, dropping) = (
            head(SIZE, &device),
            head(SecondOrderSize { drop: 0.5, ..SIZE }, &device),
        );
        let patches = || {
            let numbers = Tensor::arange(0..2 * 4 * 3, &device).float();
            (numbers * 0.7).sin().reshape([2, 4, 3])
        };
        let run = |head: &SecondOrder, phase| values(head.forward(patches(), phase));
        let train = |key| Phase::Train(Key::new(key));
        assert_eq!(run(&plain, Phase::Eval), run(&dropping, Phase::Eval));
        assert_eq!(run(&plain, train(1)), run(&plain, train(2)));
        assert_eq!(run(&dropping, train(1)), run(&dropping, train(1)));
        assert_ne!(run(&dropping, train(1)), run(&dropping, train(2)));
    }
}
