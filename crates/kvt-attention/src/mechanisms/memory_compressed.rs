//! Memory-compressed attention: keys and values are shortened by strided convolutions.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::weighing::{Weighing, with_prefix};
use crate::{
    AttentionError, Context, Cost, Law, Macs, Mechanism, MechanismConfig, ParamInit, Place,
    SoftmaxAttention,
};

settings! {
    /// Attention over convolved keys and values: a convolution over the tokens whose kernel and stride are `ratio`, for each head by
    /// itself, makes one key of every `ratio`, `softmax(scale / temperature * q conv_k(k)^T) conv_v(v)` ([Generating Wikipedia by
    /// Summarizing Long Sequences, ICLR 2018](https://arxiv.org/abs/1801.10198), section 4.2.3). The cost falls by the ratio
    /// and stays quadratic in the tokens. Tokens of the prefix are keys as they are. The last convolution has zeros for tokens that are
    /// missing.
    #[derive(Copy)]
    pub struct MemoryCompressedConfig {
        /// Consecutive tokens that become one key: kernel and stride of the convolutions; no more than there are tokens in the map.
        pub ratio: usize = 3, range(min = 1, max = 1024);
        /// Whether keys and values are compressed by the same weights.
        pub shared: bool = false;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The module of [`MemoryCompressedConfig`].
#[derive(Module, Debug)]
pub struct MemoryCompressed {
    /// Also for the values if they share it.
    compress_k: Compression,
    compress_v: Option<Compression>,
    softmax: SoftmaxAttention,
}

/// A convolution over the tokens for each head, whose stride is its kernel.
#[derive(Module, Debug)]
struct Compression {
    /// `[heads, ratio, head_dim, head_dim]`: token, input, output.
    weight: Param<Tensor<4>>,
    /// `[heads, head_dim]`.
    bias: Param<Tensor<2>>,
}

impl MechanismConfig for MemoryCompressedConfig {
    const KIND: &'static str = "memory-compressed";

    type Mechanism = MemoryCompressed;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)?;
        let (ratio, map) = (self.ratio, place.keys.saturating_sub(place.prefix));
        if place.keys == 0 || ratio <= map {
            return Ok(());
        }
        let reason =
            format!("cannot make one key of `ratio` {ratio} tokens where the map has {map}");
        let help = match map {
            0 => "use `dense` or `knn` here".to_owned(),
            _ => format!("set `ratio` to {map} or less"),
        };
        Err(AttentionError::misplaced(Self::KIND, reason, help))
    }

    fn cost(&self, place: &Place) -> Cost {
        let Place {
            heads, head_dim, ..
        } = *place;
        let prefix = place.prefix.min(place.keys);
        let groups = (place.keys - prefix).div_ceil(self.ratio);
        let weight = self.ratio * head_dim.pow(2);
        let convolutions = Macs::linear(2 * groups * weight * heads);
        let products = 2 * place.queries * (prefix + groups) * place.dim();
        Cost {
            params: if self.shared { 1 } else { 2 } * heads * (weight + head_dim),
            macs: convolutions + Macs::attention(products),
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> MemoryCompressed {
        let compression = |name| Compression::new(self.ratio, place, &init.child(name));
        MemoryCompressed {
            compress_k: compression("compress_k"),
            compress_v: (!self.shared).then(|| compression("compress_v")),
            softmax: SoftmaxAttention::at(self.temperature),
        }
    }
}

impl Mechanism for MemoryCompressed {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let of_values = self.compress_v.as_ref().unwrap_or(&self.compress_k);
        let k = self.compress_k.forward(k, context.prefix);
        let v = of_values.forward(v, context.prefix);
        Weighing::new(self.softmax.temperature, &context).attend(q, k, v)
    }
}

impl Compression {
    fn new(ratio: usize, place: &Place, init: &impl ParamInit) -> Self {
        let Place {
            heads, head_dim, ..
        } = *place;
        // PyTorch's bound for a convolution with as many inputs.
        let law = Law::Uniform {
            bound: ((ratio * head_dim) as f32).powf(-0.5),
        };
        Self {
            weight: init.param("weight", [heads, ratio, head_dim, head_dim], law),
            bias: init.param("bias", [heads, head_dim], law),
        }
    }

    /// `[batch, heads, tokens, dim]` to `[batch, heads, prefix + groups, dim]`, in f32.
    fn forward(&self, x: Tensor<4>, prefix: usize) -> Tensor<4> {
        let ([batch, heads, tokens, dim], dtype) = (x.dims(), x.dtype());
        let weight = self.weight.val().cast(DType::F32);
        let bias = self.bias.val().cast(DType::F32);
        let [_, ratio, ..] = weight.dims();
        let map = x
            .clone()
            .narrow(2, prefix, tokens - prefix)
            .cast(DType::F32)
            .swap_dims(0, 1);
        let groups = (tokens - prefix).div_ceil(ratio);
        let missing = groups * ratio - (tokens - prefix);
        let map = if missing > 0 {
            let zeros = Tensor::zeros([heads, batch, missing, dim], (&map.device(), DType::F32));
            Tensor::cat(vec![map, zeros], 2)
        } else {
            map
        };
        // A group is a row, and every head is one matrix product.
        let rows = map.reshape([heads, batch * groups, ratio * dim]);
        let weight = weight.reshape([heads, ratio * dim, dim]);
        let keys = rows.matmul(weight) + bias.unsqueeze_dim::<3>(1);
        let keys = keys
            .reshape([heads, batch, groups, dim])
            .swap_dims(0, 1)
            .cast(dtype);
        with_prefix(x, prefix, keys)
    }
}

#[cfg(test)]
mod tests;
