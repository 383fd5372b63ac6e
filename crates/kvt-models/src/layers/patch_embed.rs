//! Images to tokens: a convolution whose kernel equals its stride.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{layer_norm, linear_with, permute_reshape, widened};

use super::{Conv2d, ConvSettings, Init, to_tokens};

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
        let settings = ConvSettings::patches(in_chans, embed_dim, patch_size);
        Self::from_conv(init.conv("proj", settings))
    }

    /// From a convolution whose kernel equals its stride, but for [`forward_overlapping`](Self::forward_overlapping).
    pub(crate) fn from_conv(proj: Conv2d) -> Self {
        Self {
            proj,
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

    /// The tokens in f32, as they enter the stream, from images of any type, and rows and columns of the map that
    /// they form. The result equals the convolution, which ignores remainders at the right and at the bottom; since
    /// patches do not overlap it is one matrix product, which is faster than the general kernels in both directions.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, rows * columns, embed_dim]`, row by row.
    pub fn forward(&self, images: Tensor<4>) -> (Tensor<3>, [usize; 2]) {
        let weight = self.proj.weight.val();
        let [embed_dim, in_chans, patch, _] = weight.dims();
        let [batch, _, height, width] = images.dims();
        let grid @ [rows, columns] = [height / patch, width / patch];
        let fan_in = in_chans * patch * patch;

        let whole = [rows * patch, columns * patch];
        let images = if whole == [height, width] {
            images
        } else {
            images.narrow(2, 0, whole[0]).narrow(3, 0, whole[1])
        };
        let images = images.reshape([batch, in_chans, rows, patch, columns, patch]);
        let shape = [batch, rows * columns, fan_in];
        let patches = permute_reshape(images, [0, 2, 4, 1, 3, 5], shape);
        let weight = weight.reshape([embed_dim, fan_in]).transpose();
        let tokens = linear_with(patches, weight, self.proj.bias.as_ref().map(Param::val));
        (self.normalise(tokens), grid)
    }

    /// The same for a map of tokens.
    ///
    /// # Shapes
    ///
    /// `[batch, height * width, in_chans]`, row by row, to `[batch, rows * columns, embed_dim]`.
    pub(crate) fn forward_tokens(
        &self,
        tokens: Tensor<3>,
        map: [usize; 2],
    ) -> (Tensor<3>, [usize; 2]) {
        let tokens = self.normalise(convolve_tokens(&self.proj, tokens, map));
        (tokens, map.map(|side| side / self.patch_size()))
    }

    /// The same by the convolution itself, whose patches may overlap.
    ///
    /// # Shapes
    ///
    /// As [`forward`](Self::forward).
    pub(crate) fn forward_overlapping(&self, map: Tensor<4>) -> (Tensor<3>, [usize; 2]) {
        let map = self.proj.forward(map);
        let [_, _, rows, columns] = map.dims();
        (self.normalise(to_tokens(map)), [rows, columns])
    }

    fn normalise(&self, tokens: Tensor<3>) -> Tensor<3> {
        match &self.norm {
            Some(norm) => layer_norm(norm, tokens, self.norm_epsilon),
            None => widened(tokens),
        }
    }
}

/// A convolution of a map of tokens whose kernel equals its stride, in the type of the tokens: one matrix product,
/// without a copy of the map with its channels first. Like any convolution it ignores remainders if kernels do not
/// divide the map.
///
/// # Shapes
///
/// `[batch, height * width, in_channels]`, row by row, to `[batch, rows * columns, out_channels]`.
pub(crate) fn convolve_tokens(
    conv: &Conv2d,
    tokens: Tensor<3>,
    [height, width]: [usize; 2],
) -> Tensor<3> {
    let weight = conv.weight.val();
    let [out, channels, kernel, _] = weight.dims();
    let batch = tokens.dims()[0];
    let (rows, columns) = (height / kernel, width / kernel);
    let fan_in = kernel * kernel * channels;

    let map = tokens.reshape([batch, height, width, channels]);
    let map = crop(map, [rows * kernel, columns * kernel])
        .reshape([batch, rows, kernel, columns, kernel, channels]);
    let patches = permute_reshape(map, [0, 1, 3, 2, 4, 5], [batch, rows * columns, fan_in]);
    let weight = weight.permute([0, 2, 3, 1]).reshape([out, fan_in]);
    linear_with(
        patches,
        weight.transpose(),
        conv.bias.as_ref().map(Param::val),
    )
}

/// The first rows and columns of a map.
///
/// # Shapes
///
/// `[batch, height, width, dim]` to `[batch, rows, columns, dim]`.
fn crop(map: Tensor<4>, [rows, columns]: [usize; 2]) -> Tensor<4> {
    if map.dims()[1..3] == [rows, columns] {
        return map;
    }
    map.narrow(1, 0, rows).narrow(2, 0, columns)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use kvt_ops::Key;

    use super::*;
    use crate::layers::to_tokens;

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
        let (out, grid) = embed.forward(Tensor::from_data(images, &device));
        assert_eq!(grid, [rows, columns]);
        assert_eq!(out.dims(), [batch, rows * columns, dim]);
        let out: Vec<f32> = out.into_data().try_to_vec().unwrap();
        for (out, expected) in out.iter().zip(&expected) {
            assert!((out - expected).abs() < 1e-5, "{out} != {expected}");
        }
    }

    /// A map of tokens is an image with its channels last. Remainders that do not fill a patch are ignored.
    #[test]
    fn tokens_give_what_their_image_gives() {
        let device = Device::flex();
        let (batch, chans, p) = (2, 3, 4);
        let embed = PatchEmbed::new(&Init::new(&device, Key::new(2)), chans, 5, p);
        let init = Init::new(&device, Key::new(3));
        let embed = embed.with_norm(&init, 1e-5);
        for [height, width] in [[8, 12], [11, 13]] {
            let values: Vec<f32> = (0..batch * chans * height * width)
                .map(|i| ((i * 37 % 101) as f32) / 50.0 - 1.0)
                .collect();
            let images = TensorData::new(values, [batch, chans, height, width]);
            let images = Tensor::<4>::from_data(images, &device);
            let of_tokens = embed.forward_tokens(to_tokens(images.clone()), [height, width]);
            let of_image = embed.forward(images.clone());
            let whole = images
                .narrow(2, 0, height / p * p)
                .narrow(3, 0, width / p * p);
            let (expected, _) = embed.forward(whole);
            for (tokens, grid) in [of_tokens, of_image] {
                assert_eq!(grid, [height / p, width / p]);
                assert_eq!(tokens.dims(), expected.dims());
                let difference = (tokens - expected.clone()).abs().max();
                assert!(difference.into_scalar::<f32>() < 1e-5);
            }
        }
    }
}
