//! Attention whose queries, keys and values are made by convolutions.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::{Context, Mechanism, Mixer, Place, merge_heads};
use kvt_ops::linear;

use super::stage::StageSize;
use crate::layers::{ConvNorm, Init, Pass, SelfAttention, to_map, to_tokens};

/// Multi-head attention of a map of tokens, and of the class token before it, with the original's
/// parameter names.
#[derive(Module, Debug)]
pub(super) struct ConvAttention {
    conv_proj_q: ConvNorm,
    conv_proj_k: ConvNorm,
    conv_proj_v: ConvNorm,
    proj_q: Linear,
    proj_k: Linear,
    proj_v: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl ConvAttention {
    pub(super) fn new(init: &Init<'_>, size: &StageSize) -> Self {
        let (block, place) = (size.blocks.block, size.blocks.place);
        let dim = block.dim;
        // Convolutions of each channel by itself.
        let conv = |name, stride| {
            let init = init.child(name);
            ConvNorm::new(&init, init.conv("conv", size.projection(stride)))
        };
        let linear = |name, bias| init.linear(name, dim, dim, bias);
        Self {
            conv_proj_q: conv("conv_proj_q", 1),
            conv_proj_k: conv("conv_proj_k", size.kv_stride),
            conv_proj_v: conv("conv_proj_v", size.kv_stride),
            proj_q: linear("proj_q", block.qkv_bias),
            proj_k: linear("proj_k", block.qkv_bias),
            proj_v: linear("proj_v", block.qkv_bias),
            proj: linear("proj", true),
            mixer: size.blocks.attention.init(&place, &init.child("mixer")),
            place,
        }
    }
}

impl SelfAttention<3> for ConvAttention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let ([batch, tokens, dim], [rows, columns]) = (x.dims(), pass.grid);
        let prefix = tokens - rows * columns;
        let class = (prefix > 0).then(|| x.clone().narrow(1, 0, prefix));
        let map = to_map(x, prefix, pass.grid);
        // The class token has no place in the map, so that no convolution applies to it.
        let project = |conv: &ConvNorm, layer: &Linear| {
            let convolved = to_tokens(conv.without_relu(map.clone(), pass.phase));
            let all = match &class {
                Some(class) => Tensor::cat(vec![class.clone(), convolved], 1),
                None => convolved,
            };
            let projected = linear(layer, all);
            let [_, tokens, _] = projected.dims();
            // A view; `split_heads` would copy it, and its gradient several times.
            projected
                .reshape([batch, tokens, self.place.heads, self.place.head_dim])
                .swap_dims(1, 2)
        };
        let q = project(&self.conv_proj_q, &self.proj_q);
        let k = project(&self.conv_proj_k, &self.proj_k);
        let v = project(&self.conv_proj_v, &self.proj_v);
        // The original scales by all channels instead of those of a head.
        let context = Context {
            scale: (dim as f64).powf(-0.5),
            grid: Some(pass.grid),
            ..self.place.context(pass.phase)
        };
        pass.watch
            .probabilities(|| self.mixer.probabilities(q.clone(), k.clone(), &context));
        merge_heads(self.mixer.attend(q, k, v, context))
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
