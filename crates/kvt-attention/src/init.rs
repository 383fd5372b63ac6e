//! Initial weights of a mechanism: the interface to the initialisers.

use burn::module::Param;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use kvt_ops::Key;

/// How the values of a parameter are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// All the same.
    Constant(f32),
    /// Uniform from `-bound` to `bound`.
    Uniform {
        /// The largest absolute value.
        bound: f32,
    },
    /// Normal around 0; the models of `kvt-models` redraw values beyond ±2, as timm does.
    Normal {
        /// The standard deviation.
        std: f32,
    },
}

/// Makes the parameters of a part of a model. [`BurnInit`] draws from Burn's generator; the models of
/// `kvt-models` draw every parameter from a key that is named by its path.
pub trait ParamInit: Sized {
    /// Where parameters are made.
    fn device(&self) -> &Device;

    /// The initialiser of a part, by its name among the parameters.
    fn child(&self, name: &str) -> Self;

    /// Identifies the place in the model, independently of the seed. Mechanisms draw fixed numbers that are not saved
    /// from this key, so that a loaded model draws the same ones.
    fn path(&self) -> Key;

    /// A parameter.
    fn param<const D: usize>(&self, name: &str, shape: [usize; D], law: Law) -> Param<Tensor<D>>;

    /// A linear layer, as the rest of the model makes them.
    fn linear(&self, name: &str, d_input: usize, d_output: usize, bias: bool) -> Linear;
}

/// Burn's own initialisers, drawn from the generator of the device.
#[derive(Clone, Debug)]
pub struct BurnInit {
    device: Device,
    path: Key,
}

impl BurnInit {
    /// Parameters on `device`.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            path: Key::new(0),
        }
    }
}

impl ParamInit for BurnInit {
    fn device(&self) -> &Device {
        &self.device
    }

    fn child(&self, name: &str) -> Self {
        Self {
            device: self.device.clone(),
            path: self.path.named(name),
        }
    }

    fn path(&self) -> Key {
        self.path
    }

    fn param<const D: usize>(&self, _name: &str, shape: [usize; D], law: Law) -> Param<Tensor<D>> {
        let initializer = match law {
            Law::Constant(value) => Initializer::Constant {
                value: value.into(),
            },
            Law::Uniform { bound } => Initializer::Uniform {
                min: f64::from(-bound),
                max: bound.into(),
            },
            Law::Normal { std } => Initializer::Normal {
                mean: 0.0,
                std: std.into(),
            },
        };
        initializer.init(shape, &self.device)
    }

    fn linear(&self, _name: &str, d_input: usize, d_output: usize, bias: bool) -> Linear {
        LinearConfig::new(d_input, d_output)
            .with_bias(bias)
            .init(&self.device)
    }
}
