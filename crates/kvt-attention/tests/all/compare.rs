//! Problems on devices, beside their naive solutions.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use kvt_attention::{Implementation, Neighbors, Score, SoftmaxAttention, attend};

use crate::devices::{tensor, values};
use crate::naive::{Inputs, NAMES, Sizes, worst};

/// The settings of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) implementation: Implementation,
    pub(crate) scale: f64,
    pub(crate) kept: usize,
    pub(crate) dtype: DType,
}

impl Case {
    /// In f32, with the automatic implementation, at a scale that causes no rounding.
    pub(crate) fn new(kept: usize) -> Self {
        Self {
            implementation: Implementation::Auto,
            scale: 0.25,
            kept,
            dtype: DType::F32,
        }
    }

    pub(crate) fn by(self, implementation: Implementation) -> Self {
        Self {
            implementation,
            ..self
        }
    }

    pub(crate) fn of(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    pub(crate) fn attention(&self) -> SoftmaxAttention {
        SoftmaxAttention {
            implementation: self.implementation,
            ..SoftmaxAttention::knn(Neighbors::count(self.kept).unwrap())
        }
    }

    /// Output and gradients, in the order of the naive solution.
    pub(crate) fn run(&self, inputs: &Inputs, device: &Device) -> [Vec<f32>; 5] {
        let Sizes {
            images,
            heads,
            queries,
            keys,
            dim,
            value_dim,
        } = inputs.sizes;
        let device = device.clone().autodiff();
        let leaf = |data: &[f32], shape: [usize; 4]| {
            tensor(data, shape, &device).cast(self.dtype).require_grad()
        };
        let (q, k, v) = (
            leaf(&inputs.q, [images, heads, queries, dim]),
            leaf(&inputs.k, [images, heads, keys, dim]),
            leaf(&inputs.v, [images, heads, keys, value_dim]),
        );
        let bias = inputs.bias.as_ref();
        let bias = bias.map(|bias| leaf(bias, [1, heads, queries, keys]));
        let score = Score {
            bias: bias.clone(),
            mask: None,
        };
        let (a, b, c) = (q.clone(), k.clone(), v.clone());
        let out = attend(a, b, c, score, self.scale, &self.attention(), None).unwrap();
        assert_eq!(out.dtype(), self.dtype);
        let probe = tensor(&inputs.probe, [images, heads, queries, value_dim], &device);
        let grads = (out.clone() * probe.cast(self.dtype)).sum().backward();
        let grad = |x: &Tensor<4>| values(x.grad(&grads).unwrap());
        let bias = bias.as_ref().map_or_else(Vec::new, grad);
        [values(out), grad(&q), grad(&k), grad(&v), bias]
    }

    #[track_caller]
    pub(crate) fn check(&self, inputs: &Inputs, name: &str, device: &Device) {
        let expected = inputs.solve(self.scale, self.kept);
        self.check_against(inputs, &expected, name, device);
    }

    /// As [`Self::check`], for many comparisons with one solution.
    #[track_caller]
    pub(crate) fn check_against(
        &self,
        inputs: &Inputs,
        expected: &[Vec<f32>; 5],
        name: &str,
        device: &Device,
    ) {
        let tolerance = match self.dtype {
            DType::F16 => 4e-3,
            DType::BF16 => 3e-2,
            _ => 2e-5,
        };
        let actual = self.run(inputs, device);
        for ((what, actual), expected) in NAMES.iter().zip(&actual).zip(expected) {
            let worst = worst(actual, expected);
            assert!(
                worst <= tolerance,
                "{name}, {self:?}, {:?}: {what}: relative error {worst}",
                inputs.sizes
            );
        }
    }
}

/// The inputs with values rounded to a type.
pub(crate) fn rounded(mut inputs: Inputs, dtype: DType) -> Inputs {
    let Inputs {
        q,
        k,
        v,
        bias,
        probe,
        ..
    } = &mut inputs;
    for data in [q, k, v, probe].into_iter().chain(bias) {
        *data = values(tensor(data, [data.len()], &Device::flex()).cast(dtype));
    }
    inputs
}

/// Numbers of kept keys at the edges and in the middle.
pub(crate) fn neighbors(keys: usize) -> Vec<usize> {
    let mut all = vec![1, 2, keys / 2, keys.saturating_sub(1), keys, keys + 1];
    all.retain(|k| *k > 0);
    all.dedup();
    all
}

pub(crate) fn bools<const D: usize>(
    data: &[bool],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Bool> {
    Tensor::from_data(TensorData::new(data.to_vec(), shape), device)
}
