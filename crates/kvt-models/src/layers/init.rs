//! Layers with timm's initialisation, drawn on the host.
//!
//! Every parameter has its own random stream, named by its path in the model: a seed gives the same
//! weights on every backend, and adding a layer changes no other layer's weights.

use burn::module::Param;
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use kvt_attention::{Law, ParamInit, perpendicular};
use kvt_ops::Key;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::{BatchNorm, BatchNormSettings, Conv2d, ConvSettings};

/// timm's standard deviation of linear weights, tokens and position embeddings.
const STD: f32 = 0.02;
/// timm cuts at an absolute value, not at a number of standard deviations.
const CUT: f32 = 2.0;

/// Where layers are made, and from which randomness.
#[derive(Clone, Copy, Debug)]
pub struct Init<'a> {
    device: &'a Device,
    key: Key,
    /// As `key`, but independent of the seed.
    path: Key,
    uniform_linears: bool,
}

impl<'a> Init<'a> {
    /// Layers on `device`, drawn from `key`.
    pub fn new(device: &'a Device, key: Key) -> Self {
        Self {
            device,
            key,
            path: Key::new(0),
            uniform_linears: false,
        }
    }

    /// Linear layers with PyTorch's default instead: uniform weights and bias within
    /// `1 / sqrt(d_input)`.
    pub fn with_uniform_linears(self) -> Self {
        Self {
            uniform_linears: true,
            ..self
        }
    }

    /// Where layers are made.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// The initialisation of a part of the model, by its name among the parameters.
    pub fn child(&self, name: &str) -> Self {
        Self {
            key: self.key.named(name),
            path: self.path.named(name),
            ..*self
        }
    }

    /// A linear layer: truncated normal weights, zero bias, or [PyTorch's default](Self::with_uniform_linears).
    pub fn linear(&self, name: &str, d_input: usize, d_output: usize, bias: bool) -> Linear {
        let init = self.child(name);
        let bound = 1.0 / (d_input as f32).sqrt();
        let (weight, shape) = ("weight", [d_input, d_output]);
        Linear {
            weight: if self.uniform_linears {
                init.uniform(weight, shape, bound)
            } else {
                init.trunc_normal(weight, shape)
            },
            bias: bias.then(|| {
                if self.uniform_linears {
                    init.uniform("bias", [d_output], bound)
                } else {
                    init.fill([d_output], || 0.0)
                }
            }),
        }
    }

    /// A layer norm over `dim` channels: unit weight, zero bias.
    pub fn layer_norm(&self, dim: usize, epsilon: f64) -> LayerNorm {
        LayerNormConfig::new(dim)
            .with_epsilon(epsilon)
            .init(self.device)
    }

    /// A convolution with PyTorch's default: Kaiming-uniform weights with `a = sqrt(5)`, and a bias of
    /// the same bound `1 / sqrt(fan_in)`.
    pub fn conv(&self, name: &str, settings: ConvSettings) -> Conv2d {
        let init = self.child(name);
        let fan_in = settings.fan_in();
        let bound = 1.0 / (fan_in as f32).sqrt();
        let bias = || init.uniform("bias", [settings.out_channels], bound);
        Conv2d::new(
            init.uniform("weight", settings.shape(), bound),
            settings.bias.then(bias),
            settings,
        )
    }

    /// A convolution with Kaiming-normal weights for the fan-out `out_channels * kernel^2`, which is not divided by
    /// the groups, and zero bias: `kaiming_normal_(mode="fan_out", nonlinearity="relu")`.
    pub fn conv_kaiming_fan_out(&self, name: &str, settings: ConvSettings) -> Conv2d {
        self.conv_normal(name, settings, 1)
    }

    /// As [`conv_kaiming_fan_out`](Self::conv_kaiming_fan_out), with a fan-out that is divided by the groups: the
    /// authors' initialisation of Twins, and that of EfficientNet.
    pub fn conv_fan_out_groups(&self, name: &str, settings: ConvSettings) -> Conv2d {
        self.conv_normal(name, settings, settings.groups)
    }

    /// A convolution with normal weights of the standard deviation `sqrt(2 parts / (out_channels kernel^2))`, and zero bias.
    fn conv_normal(&self, name: &str, settings: ConvSettings, parts: usize) -> Conv2d {
        let fan_out = settings.out_channels * settings.kernel.pow(2) / parts.max(1);
        self.conv_with_std(name, settings, (2.0 / fan_out as f32).sqrt())
    }

    /// A convolution with normal weights of this standard deviation, and zero bias.
    pub fn conv_with_std(&self, name: &str, settings: ConvSettings, std: f32) -> Conv2d {
        let init = self.child(name);
        let bias = || init.fill([settings.out_channels], || 0.0);
        Conv2d::new(
            init.normal("weight", settings.shape(), std),
            settings.bias.then(bias),
            settings,
        )
    }

    /// A batch norm: unit weight and variance, zero bias and mean.
    pub fn batch_norm(&self, channels: usize, settings: BatchNormSettings) -> BatchNorm {
        BatchNorm::new(
            [1.0, 0.0].map(|value| self.fill([channels], || value)),
            [0.0, 1.0].map(|value| Tensor::full([channels], value, self.device)),
            settings,
        )
    }

    /// Learned tokens or position embeddings `[1, tokens, dim]`: truncated normal.
    pub fn token(&self, name: &str, tokens: usize, dim: usize) -> Param<Tensor<3>> {
        self.trunc_normal(name, [1, tokens, dim])
    }

    /// A parameter drawn from timm's truncated normal.
    pub(crate) fn trunc_normal<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
    ) -> Param<Tensor<D>> {
        self.cut_normal(name, shape, STD, CUT)
    }

    /// A parameter drawn from a normal distribution around 0.
    pub fn normal<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        std: f32,
    ) -> Param<Tensor<D>> {
        self.cut_normal(name, shape, std, f32::INFINITY)
    }

    /// A matrix `[rows, columns]` whose rows, or columns if there are fewer of them, are orthogonal to each other and
    /// of length `gain`; all directions are equally likely: `orthogonal_` of PyTorch. For [`fixed`](Self::fixed), or
    /// a parameter.
    pub fn orthogonal(&self, name: &str, [rows, columns]: [usize; 2], gain: f64) -> TensorData {
        let mut rng = self.key.named(name).rng();
        let (count, length) = (rows.min(columns), rows.max(columns));
        let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
        for _ in 0..count {
            let draws = StandardNormal.sample_iter(&mut rng);
            let next = perpendicular(&basis, draws.take(length).collect());
            basis.push(next);
        }
        let value = |row: usize, column: usize| {
            if rows <= columns {
                basis[row][column]
            } else {
                basis[column][row]
            }
        };
        let values: Vec<f32> = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
            .map(|(row, column)| (gain * value(row, column)) as f32)
            .collect();
        TensorData::new(values, [rows, columns])
    }

    /// A part of the state that is saved with the weights but never trained, such as a [`sinusoid`](super::sinusoid):
    /// it gets no gradient.
    pub fn fixed<const D: usize>(&self, shape: [usize; D], data: TensorData) -> Param<Tensor<D>> {
        let values = Tensor::<D>::from_data(data, self.device).reshape(shape);
        Param::from_tensor(values).set_require_grad(false)
    }

    /// A parameter drawn from a normal distribution; values beyond `cut` are redrawn.
    fn cut_normal<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        std: f32,
        cut: f32,
    ) -> Param<Tensor<D>> {
        let mut rng = self.key.named(name).rng();
        self.fill(shape, || {
            loop {
                let draw: f32 = StandardNormal.sample(&mut rng);
                let value = draw * std;
                if value.abs() <= cut {
                    return value;
                }
            }
        })
    }

    /// A parameter drawn uniformly from `-bound` to `bound`.
    pub(crate) fn uniform<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        bound: f32,
    ) -> Param<Tensor<D>> {
        let mut rng = self.key.named(name).rng();
        self.fill(shape, || (2.0 * rng.random::<f32>() - 1.0) * bound)
    }

    fn fill<const D: usize>(
        &self,
        shape: [usize; D],
        mut draw: impl FnMut() -> f32,
    ) -> Param<Tensor<D>> {
        let shape = Shape::from(shape);
        let values: Vec<f32> = (0..shape.num_elements()).map(|_| draw()).collect();
        Param::from_data(TensorData::new(values, shape), self.device)
    }
}

/// Parameters of an attention mechanism, by the same rules as those around it.
impl ParamInit for Init<'_> {
    fn device(&self) -> &Device {
        self.device
    }

    fn child(&self, name: &str) -> Self {
        self.child(name)
    }

    fn path(&self) -> Key {
        self.path
    }

    fn param<const D: usize>(&self, name: &str, shape: [usize; D], law: Law) -> Param<Tensor<D>> {
        match law {
            Law::Constant(value) => self.fill(shape, || value),
            Law::Uniform { bound } => self.uniform(name, shape, bound),
            Law::Normal { std } => self.cut_normal(name, shape, std, CUT),
        }
    }

    fn linear(&self, name: &str, d_input: usize, d_output: usize, bias: bool) -> Linear {
        self.linear(name, d_input, d_output, bias)
    }
}

#[cfg(test)]
mod tests;
