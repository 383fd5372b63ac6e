//! Images to tokens: a convolution whose kernel is its stride.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::module::linear;
use kvt_ops::layer_norm;

use super::{Conv2d, ConvSettings, Init};

/// Cuts an image into square patches and projects each to a token.
#[derive(Module, Debug)]
pub struct PatchEmbed {
    proj: Conv2d,
    norm: Option<LayerNorm>,
    #[module(skip)]
    norm_epsilon: f64,
}

impl PatchEmbed {
    /// Patches of `patch_size` x `patch_size` pixels become tokens of `embed_dim` channels.
    pub fn new(init: &Init<'_>, in_chans: usize, embed_dim: usize, patch_size: usize) -> Self {
        Self {
            proj: init.conv(
                "proj",
                ConvSettings::patches(in_chans, embed_dim, patch_size),
            ),
            norm: None,
            norm_epsilon: 0.0,
        }
    }

    /// The same with a layer norm of the tokens.
    pub fn with_norm(self, init: &Init<'_>, epsilon: f64) -> Self {
        Self {
            norm: Some(init.layer_norm(self.proj.settings().out_channels, epsilon)),
            norm_epsilon: epsilon,
            ..self
        }
    }

    /// Side of a patch in pixels.
    pub fn patch_size(&self) -> usize {
        self.proj.settings().kernel
    }

    /// Equal to the convolution; since patches do not overlap it is one matrix product, which is
    /// faster than the general kernels in both directions.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, rows * columns, embed_dim]`, row by row.
    /// Height and width are multiples of the patch size.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<3> {
        let weight = self.proj.weight.val();
        let [embed_dim, in_chans, patch, _] = weight.dims();
        let [batch, _, height, width] = images.dims();
        let (rows, columns) = (height / patch, width / patch);
        let fan_in = in_chans * patch * patch;

        let patches = images
            .reshape([batch, in_chans, rows, patch, columns, patch])
            .permute([0, 2, 4, 1, 3, 5])
            .reshape([batch, rows * columns, fan_in]);
        let weight = weight.reshape([embed_dim, fan_in]).transpose();
        let tokens = linear(patches, weight, self.proj.bias.as_ref().map(Param::val));
        match &self.norm {
            Some(norm) => layer_norm(norm, tokens, self.norm_epsilon),
            None => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use kvt_ops::Key;

    use super::*;

    #[test]
    fn equals_a_naive_convolution_on_a_rectangular_image() {
        let device = Device::flex();
        let (batch, chans, height, width, dim, p) = (2, 3, 8, 12, 5, 4);
        let embed = PatchEmbed::new(&Init::new(&device, Key::new(2)), chans, dim, p);
        let weight: Vec<f32> = embed.proj.weight.val().into_data().try_to_vec().unwrap();
        let bias: Vec<f32> = embed
            .proj
            .bias
            .as_ref()
            .unwrap()
            .val()
            .into_data()
            .try_to_vec()
            .unwrap();
        let images: Vec<f32> = (0..batch * chans * height * width)
            .map(|i| ((i * 37 % 101) as f32) / 50.0 - 1.0)
            .collect();

        let (rows, columns) = (height / p, width / p);
        let mut expected = Vec::new();
        for b in 0..batch {
            for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                for d in 0..dim {
                    let mut sum = bias[d];
                    for c in 0..chans {
                        for (y, x) in (0..p).flat_map(|y| (0..p).map(move |x| (y, x))) {
                            let pixel =
                                ((b * chans + c) * height + row * p + y) * width + column * p + x;
                            sum += images[pixel] * weight[((d * chans + c) * p + y) * p + x];
                        }
                    }
                    expected.push(sum);
                }
            }
        }

        let images = TensorData::new(images, [batch, chans, height, width]);
        let out = embed.forward(Tensor::from_data(images, &device));
        assert_eq!(out.dims(), [batch, rows * columns, dim]);
        let out: Vec<f32> = out.into_data().try_to_vec().unwrap();
        for (out, expected) in out.iter().zip(&expected) {
            assert!((out - expected).abs() < 1e-5, "{out} != {expected}");
        }
    }
}
