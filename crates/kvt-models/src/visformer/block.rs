//! A block of a Visformer: with attention, or with a convolution within its MLP.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::{Residual, gelu};

use super::attention::Attention;
use super::stage::{StageSize, spatial};
use crate::layers::{
    BatchNorm, BatchNormSettings, Conv2d, ConvSettings, Init, Pass, add_branch, plus, to_map,
    to_tokens,
};
use crate::observe::Point;

/// Attention, if there is any, and an MLP, each after a batch norm and added to a residual.
#[derive(Module, Debug)]
pub(super) struct VisformerBlock {
    norm1: Option<BatchNorm>,
    attn: Option<Attention>,
    norm2: BatchNorm,
    mlp: SpatialMlp,
    #[module(skip)]
    drop_path: f64,
}

/// An MLP on the pixels of a map, which in a stage without attention sees their neighbours.
#[derive(Module, Debug)]
struct SpatialMlp {
    conv1: Conv2d,
    conv2: Option<Conv2d>,
    conv3: Conv2d,
}

impl VisformerBlock {
    pub(super) fn new(init: &Init<'_>, size: &StageSize, drop_path: f64) -> Self {
        let (dim, hidden) = (size.dim, size.hidden);
        let norm = || init.batch_norm(dim, BatchNormSettings::default());
        let (attn, conv2) = match &size.attention {
            None => (None, Some(spatial(hidden))),
            Some(blocks) => {
                let attn = Attention::new(&init.child("attn"), &blocks.attention, blocks.place);
                (Some(attn), None)
            }
        };
        let mlp = init.child("mlp");
        Self {
            norm1: attn.is_some().then(norm),
            attn,
            norm2: norm(),
            mlp: SpatialMlp {
                conv1: mlp.conv_kaiming_fan_out("conv1", ConvSettings::pointwise(dim, hidden)),
                conv2: conv2.map(|settings| mlp.conv_kaiming_fan_out("conv2", settings)),
                conv3: mlp.conv_kaiming_fan_out("conv3", ConvSettings::pointwise(hidden, dim)),
            },
            drop_path,
        }
    }

    /// # Shapes
    ///
    /// `[batch, rows * columns, dim]` to the same shape.
    pub(super) fn forward(&self, mut x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let (phase, rate) = (pass.phase, self.drop_path);
        pass.watch.tokens(Point::Input, || x.clone());
        if let (Some(norm1), Some(attn)) = (&self.norm1, &self.attn) {
            let normed = norm1.forward_tokens(x.clone(), phase);
            let attn_pass = Pass {
                phase: phase.named("attn"),
                ..pass
            };
            let mixed = attn.mix(pass.lower(normed), attn_pass);
            let project = |mixed, residual| attn.project(mixed, residual);
            x = add_branch(x, mixed, Point::Attention, rate, pass, project);
        }
        let normed = self.norm2.forward_tokens(x.clone(), phase);
        let hidden = self.mlp.hidden(pass.lower(normed), pass.grid);
        let project = |hidden, residual| self.mlp.project(hidden, residual);
        add_branch(x, hidden, Point::Mlp, rate, pass, project)
    }
}

impl SpatialMlp {
    /// The input of the last convolution.
    ///
    /// # Shapes
    ///
    /// `[batch, rows * columns, dim]` to `[batch, rows * columns, hidden]`.
    fn hidden(&self, x: Tensor<3>, grid: [usize; 2]) -> Tensor<3> {
        let x = gelu(self.conv1.forward_tokens(x));
        match &self.conv2 {
            Some(conv2) => gelu(to_tokens(conv2.forward(to_map(x, 0, grid)))),
            None => x,
        }
    }

    /// The output from [`hidden`](Self::hidden), added to a residual if there is one.
    fn project(&self, hidden: Tensor<3>, residual: Option<Residual<3>>) -> Tensor<3> {
        plus(self.conv3.forward_tokens(hidden), residual)
    }
}
