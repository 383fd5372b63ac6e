//! Placeholder, replaced by that of the branch w-win.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase, layer_norm};

use crate::backbone::{Ask, Backbone};
use crate::error::ModelError;
use crate::layers::Init;
use crate::model::Model;

/// A backbone with a norm for each map.
#[derive(Module, Debug)]
pub struct Pyramid {
    /// The model.
    pub backbone: Model,
    /// The norms.
    pub norms: Vec<LayerNorm>,
}

impl Pyramid {
    /// A pyramid.
    ///
    /// # Errors
    ///
    /// None.
    pub fn new(backbone: Model, device: &Device, key: Key) -> Result<Self, ModelError> {
        let init = Init::new(device, key);
        let config = backbone.config();
        let side = config.img_size();
        let image = Tensor::zeros([1, config.in_chans(), side, side], &device.clone().inner());
        let mut own = Self {
            norms: Vec::new(),
            backbone,
        };
        let maps = own.valid().forward(image, Phase::Eval);
        let norms = maps.iter().map(|map| init.layer_norm(map.dims()[1], 1e-5));
        own.norms = norms.collect();
        Ok(own)
    }

    /// Channels of the maps.
    pub fn channels(&self) -> Vec<usize> {
        self.norms.iter().map(|norm| norm.gamma.dims()[0]).collect()
    }

    pub(crate) fn norm_name(&self, stage: usize) -> String {
        format!("norm{stage}")
    }

    /// The maps.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> Vec<Tensor<4>> {
        let ask = Ask {
            maps: true,
            precision: self.backbone.precision(),
            ..Ask::default()
        };
        let maps = self.backbone.backbone.features(images, &ask, phase).maps;
        if self.norms.is_empty() {
            return maps;
        }
        let norms = maps.into_iter().zip(&self.norms);
        norms
            .map(|(map, norm)| {
                let [b, c, h, w] = map.dims();
                let tokens = map.reshape([b, c, h * w]).swap_dims(1, 2);
                let tokens = layer_norm(norm, tokens, 1e-5);
                tokens.swap_dims(1, 2).reshape([b, c, h, w])
            })
            .collect()
    }
}
