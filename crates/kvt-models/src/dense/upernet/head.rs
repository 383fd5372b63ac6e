//! The decode head of UPerNet (Xiao et al., 2018): pyramid pooling of the last map, then a feature pyramid over all.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::{Phase, resize_bilinear};

use super::UperNetConfig;
use super::layers::{classify, conv_module, conv_seg};
use super::pooling::{Branch, branches, pooled};
use crate::dense::numbered::{numbered, size};
use crate::layers::{Conv2d, ConvNorm, Init};
use crate::precision::Precision;

/// mmsegmentation's `UPerHead`; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct UperHead {
    psp_modules: Vec<Branch>,
    bottleneck: ConvNorm,
    lateral_convs: Vec<ConvNorm>,
    fpn_convs: Vec<ConvNorm>,
    fpn_bottleneck: ConvNorm,
    conv_seg: Conv2d,
    #[module(skip)]
    dropout: f64,
}

impl UperHead {
    /// A head for maps of these channels, the finest first.
    pub(super) fn new(init: &Init<'_>, maps: &[usize], config: &UperNetConfig) -> Self {
        let width = config.channels;
        let (last, others) = maps
            .split_last()
            .map_or((0, maps), |(last, rest)| (*last, rest));
        let scales = &config.pool_scales;
        let bottleneck = last + scales.len() * width;
        Self {
            psp_modules: branches(&init.child("psp_modules"), [last, width], scales),
            bottleneck: conv_module(&init.child("bottleneck"), [bottleneck, width], 3),
            lateral_convs: numbered(&init.child("lateral_convs"), others, |init, channels| {
                conv_module(init, [channels, width], 1)
            }),
            fpn_convs: numbered(&init.child("fpn_convs"), others, |init, _| {
                conv_module(init, [width, width], 3)
            }),
            fpn_bottleneck: conv_module(
                &init.child("fpn_bottleneck"),
                [maps.len() * width, width],
                3,
            ),
            conv_seg: conv_seg(init, width, config.num_classes),
            dropout: config.dropout,
        }
    }

    /// The logits at the size of the finest map, f32; products are in the given precision.
    ///
    /// # Shapes
    ///
    /// Maps `[batch, channels, height, width]` in f32, the finest first, to `[batch, num_classes, height, width]`.
    ///
    /// # Panics
    ///
    /// If there are no maps, or maps of other channels.
    pub fn forward(&self, maps: &[Tensor<4>], precision: Precision, phase: Phase) -> Tensor<4> {
        let Some((last, others)) = maps.split_last() else {
            unreachable!("a head has at least one map");
        };
        let pooled = pooled(&self.psp_modules, last, precision, phase);
        let top = self.bottleneck.forward(pooled, phase);
        // From the coarsest to the finest: each map gets the sum of those above it.
        let mut sum = top.clone();
        let mut outputs = vec![top];
        let convs = self.lateral_convs.iter().zip(&self.fpn_convs);
        for ((lateral, fpn), map) in convs.zip(others).rev() {
            let own = lateral.forward(precision.lower(map.clone()), phase);
            let size = size(&own);
            sum = own + resize_bilinear(sum, size);
            outputs.push(fpn.forward(sum.clone(), phase));
        }
        let finest = size(&sum);
        let outputs = outputs.into_iter().rev();
        let outputs = outputs.map(|output| resize_bilinear(output, finest));
        let x = Tensor::cat(outputs.collect(), 1);
        let x = self.fpn_bottleneck.forward(x, phase);
        classify(&self.conv_seg, x, self.dropout, phase)
    }
}
