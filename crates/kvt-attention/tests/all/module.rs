//! The module against the definition, with the projections around it: the path of every step of DeiT.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use kvt_attention::{AttentionConfig, MultiHeadAttentionConfig, Neighbors};
use kvt_ops::Phase;

use crate::devices::{devices_of, tensor, values};
use crate::naive::{Inputs, Sizes, draw, worst};

pub(crate) fn layer(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Linear {
    Linear {
        weight: Param::from_tensor(weight),
        bias: bias.map(Param::from_tensor),
    }
}

/// An output projection that changes nothing.
pub(crate) fn identity(dim: usize, device: &Device) -> Linear {
    layer(Tensor::eye(dim, device), None)
}

/// Tokens, their projection to queries, keys and values, and a gradient of the output.
struct Projected {
    /// Queries, keys and values.
    inner: Inputs,
    /// `[images, tokens, width]`
    x: Vec<f32>,
    /// `[width, 3 * width]`
    weight: Vec<f32>,
    /// `[images, tokens, width]`
    probe: Vec<f32>,
}

impl Projected {
    fn new(images: usize, tokens: usize, heads: usize, dim: usize) -> Self {
        let width = heads * dim;
        let sizes = Sizes {
            images,
            heads,
            queries: tokens,
            keys: tokens,
            dim,
            value_dim: dim,
        };
        // Integers, so that all projections are exact.
        let x = draw(21, images * tokens * width, 3, 1.0);
        let weight = draw(22, width * 3 * width, 3, 1.0);
        let probe = draw(23, images * tokens * width, 1001, 0.002);
        let mut inner = Inputs::new(sizes, 0);
        for image in 0..images {
            for token in 0..tokens {
                let x = &x[(image * tokens + token) * width..][..width];
                for channel in 0..width {
                    let (head, c) = (channel / dim, channel % dim);
                    let to = ((image * heads + head) * tokens + token) * dim + c;
                    let projected = |part: usize| -> f32 {
                        let column = part * width + channel;
                        (0..width)
                            .map(|i| x[i] * weight[i * 3 * width + column])
                            .sum()
                    };
                    inner.q[to] = projected(0);
                    inner.k[to] = projected(1);
                    inner.v[to] = projected(2);
                    inner.probe[to] = probe[(image * tokens + token) * width + channel];
                }
            }
        }
        Self {
            inner,
            x,
            weight,
            probe,
        }
    }

    /// Output, and the gradients of tokens and weight.
    fn solve(&self, scale: f64, kept: usize) -> [Vec<f32>; 3] {
        let Sizes {
            images,
            heads,
            queries: tokens,
            dim,
            ..
        } = self.inner.sizes;
        let width = heads * dim;
        let [out, q, k, v, _] = self.inner.solve(scale, kept);
        let mut joined = vec![0.0; out.len()];
        let mut dx = vec![0.0f64; self.x.len()];
        let mut dweight = vec![0.0f64; self.weight.len()];
        for image in 0..images {
            for token in 0..tokens {
                let row = (image * tokens + token) * width;
                for channel in 0..width {
                    let (head, c) = (channel / dim, channel % dim);
                    let from = ((image * heads + head) * tokens + token) * dim + c;
                    joined[row + channel] = out[from];
                    for (part, grad) in [&q, &k, &v].into_iter().enumerate() {
                        let (grad, column) = (f64::from(grad[from]), part * width + channel);
                        for i in 0..width {
                            let at = i * 3 * width + column;
                            dx[row + i] += grad * f64::from(self.weight[at]);
                            dweight[at] += grad * f64::from(self.x[row + i]);
                        }
                    }
                }
            }
        }
        let [dx, dweight] = [dx, dweight].map(|x| x.into_iter().map(|x| x as f32).collect());
        [joined, dx, dweight]
    }

    fn run(&self, kept: usize, device: &Device) -> [Vec<f32>; 3] {
        let Sizes {
            images,
            heads,
            queries: tokens,
            dim,
            ..
        } = self.inner.sizes;
        let width = heads * dim;
        let device = device.clone().autodiff();
        let x = tensor(&self.x, [images, tokens, width], &device).require_grad();
        let weight = tensor(&self.weight, [width, 3 * width], &device).require_grad();
        let attention = AttentionConfig::knn(Neighbors::count(kept).unwrap());
        let config = MultiHeadAttentionConfig::new(width, heads).with_attention(attention);
        let mut module = config.init(&device).unwrap();
        module.qkv = layer(weight, None);
        module.proj = identity(width, &device);
        let out = module.forward(x.clone(), Phase::Eval);
        let probe = tensor(&self.probe, [images, tokens, width], &device);
        let grads = (out.clone() * probe).sum().backward();
        let weight = module.qkv.weight.val().grad(&grads).unwrap();
        [values(out), values(x.grad(&grads).unwrap()), values(weight)]
    }

    fn check(&self, kept: usize, name: &str, device: &Device) {
        // Heads of 4 channels: the scale causes no rounding.
        let expected = self.solve(0.5, kept);
        let actual = self.run(kept, device);
        for (what, (actual, expected)) in ["out", "x", "weight"]
            .iter()
            .zip(actual.iter().zip(&expected))
        {
            let worst = worst(actual, expected);
            let sizes = self.inner.sizes;
            assert!(
                worst <= 2e-5,
                "{name} {sizes:?}, k = {kept}: {what} {worst}"
            );
        }
    }
}

/// The gradients are packed, three in one tensor, and are added up over blocks of queries.
#[test]
fn gradients_through_the_projections_agree_with_sorting() {
    for (images, tokens) in [(9, 150), (6, 200), (1, 600)] {
        let problem = Projected::new(images, tokens, 2, 4);
        for kept in [1, tokens / 3, tokens] {
            problem.check(kept, "flex", &Device::flex());
        }
    }
    let problem = Projected::new(2, 37, 2, 4);
    for kept in [5, 37] {
        for (name, device) in devices_of(kept == 5) {
            problem.check(kept, name, &device);
        }
    }
}
