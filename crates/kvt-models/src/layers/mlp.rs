//! The MLP of a transformer block.

use std::f64::consts::PI;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, silu};
use kvt_ops::{Gelu, Residual, in_type, linear, mlp, widened};

use super::scale::scaled;
use super::{Init, project};

/// The activation between the two layers of an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// `x * sigmoid(1.702 x)`.
    QuickGelu,
    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, as in larger models of SigLIP.
    GeluTanh,
    /// `silu(g) * x` of the two halves of the first layer's output (Shazeer 2020, [*GLU
    /// variants*](https://arxiv.org/abs/2002.05202)), which has as many channels as are hidden: the second layer reads half of
    /// them.
    SwiGluPacked,
    /// The same from two layers, `fc1_g` and `fc1_x`, of as many channels as are hidden.
    SwiGlu,
}

impl Activation {
    /// Channels that the second layer reads.
    pub(crate) fn inner(self, hidden: usize) -> usize {
        match self {
            Self::SwiGluPacked => hidden / 2,
            _ => hidden,
        }
    }

    /// Numbers of the layers before the last, for tokens of `dim` channels: weights, and biases.
    pub(crate) fn first(self, dim: usize, hidden: usize) -> [usize; 2] {
        let layers = if self == Self::SwiGlu { 2 } else { 1 };
        [layers * dim * hidden, layers * hidden]
    }
}

/// Two linear layers with an activation between them.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    fc1: Linear,
    fc2: Linear,
    #[module(skip)]
    activation: Activation,
}

/// [`Activation::SwiGlu`]: the gate has its own layer.
#[derive(Module, Debug)]
pub(crate) struct GatedMlp {
    fc1_g: Linear,
    fc1_x: Linear,
    fc2: Linear,
}

/// The MLP of a block.
#[derive(Module, Debug)]
pub(crate) enum BlockMlp {
    Plain(Mlp),
    Gated(GatedMlp),
}

impl Mlp {
    /// `dim` channels in and out, `hidden` between.
    pub(crate) fn new(init: &Init<'_>, dim: usize, hidden: usize, activation: Activation) -> Self {
        Self {
            fc1: init.linear("fc1", dim, hidden, true),
            fc2: init.linear("fc2", activation.inner(hidden), dim, true),
            activation,
        }
    }

    /// As [`BlockMlp::forward`].
    pub(crate) fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Option<Residual<D>>,
        factors: Option<Tensor<1>>,
    ) -> Tensor<D> {
        let fc2 = &*scaled(&self.fc2, factors);
        let hidden = |x| linear(&self.fc1, x);
        match (self.activation, residual) {
            (Activation::Gelu, residual) => mlp([&self.fc1, fc2], Gelu::Exact, x, residual),
            (Activation::QuickGelu, residual) => mlp([&self.fc1, fc2], Gelu::Quick, x, residual),
            (Activation::GeluTanh, residual) => project(fc2, gelu_tanh(hidden(x)), residual),
            (Activation::SwiGluPacked | Activation::SwiGlu, residual) => {
                let x: Tensor<D> = hidden(x);
                let half = x.dims()[D - 1] / 2;
                let [gate, x] = [0, half].map(|from| x.clone().narrow(D - 1, from, half));
                project(fc2, silu(gate) * x, residual)
            }
        }
    }
}

/// [`Activation::GeluTanh`], of which `(1 + tanh(z)) / 2 = sigmoid(2 z)` leaves a product. Half types are computed in f32: from 256 on a
/// square is infinite in f16, and its gradient would be NaN.
fn gelu_tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let dtype = x.dtype();
    let x = widened(x);
    let slope = 2.0 * (2.0 / PI).sqrt();
    let factor = x.clone().square() * (0.044715 * slope) + slope;
    in_type(x.clone() * sigmoid(factor * x), dtype)
}

impl BlockMlp {
    /// `dim` channels in and out, `hidden` between.
    pub(crate) fn new(init: &Init<'_>, dim: usize, hidden: usize, activation: Activation) -> Self {
        let layer = |name| init.linear(name, dim, hidden, true);
        match activation {
            Activation::SwiGlu => Self::Gated(GatedMlp {
                fc1_g: layer("fc1_g"),
                fc1_x: layer("fc1_x"),
                fc2: init.linear("fc2", hidden, dim, true),
            }),
            _ => Self::Plain(Mlp::new(init, dim, hidden, activation)),
        }
    }

    /// The output, each channel multiplied by a factor if there are some, `[dim]`, and added to a residual if there is one.
    ///
    /// # Shapes
    ///
    /// `[.., dim]` to the same shape.
    pub(crate) fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Option<Residual<D>>,
        factors: Option<Tensor<1>>,
    ) -> Tensor<D> {
        match self {
            Self::Plain(mlp) => mlp.forward(x, residual, factors),
            Self::Gated(mlp) => {
                let hidden = silu(linear(&mlp.fc1_g, x.clone())) * linear(&mlp.fc1_x, x);
                project(&scaled(&mlp.fc2, factors), hidden, residual)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::{DType, Device};
    use kvt_testing::devices::{tensor, values};

    use super::*;

    /// In f16 their squares are infinite.
    #[test]
    fn gelu_tanh_of_large_numbers_is_a_line_or_zero() {
        let device = Device::flex().autodiff();
        let sizes: [f32; 4] = [300.0, -300.0, 60_000.0, -60_000.0];
        for dtype in [DType::F16, DType::F32] {
            let x = tensor(&sizes, [4], &device).cast(dtype);
            let x = x.detach().require_grad();
            let y = gelu_tanh(x.clone());
            assert_eq!(y.dtype(), dtype);
            let grads = widened(y.clone()).sum().backward();
            let grad = x.grad(&grads).unwrap();
            assert_eq!(values(y), sizes.map(|x| x.max(0.0)), "{dtype:?}");
            let slope = sizes.map(|x| if x > 0.0 { 1.0 } else { 0.0 });
            assert_eq!(values(grad), slope, "{dtype:?}");
        }
    }
}
