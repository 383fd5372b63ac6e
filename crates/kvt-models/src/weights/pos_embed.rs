//! Position embeddings of another image size: bicubic interpolation, antialiased as in timm's
//! `resample_abs_pos_embed` or plain, with unchanged prefix tokens. On the host for weights that are loaded, on the
//! device for images of another size than the model's.

use burn::tensor::{Tensor, TensorData};

use super::interpolate::{Tap, interpolate, matrix};

/// How a map is resized: PyTorch's bicubic interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bicubic {
    /// As in timm: where the map shrinks, every number depends on all the old numbers that it covers.
    Antialiased,
    /// PyTorch's default: from four numbers along each axis.
    Plain,
    /// As in DINO for crops of another size: as `Plain`, but in steps of `input / (output + 0.1)`. Its code gives
    /// PyTorch the factor `(output + 0.1) / input`, so that rounding does not lose a row, and PyTorch also uses the
    /// factor for the positions.
    Dino,
}

/// Where the map is in position embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `[1, prefix + rows * columns, dim]`, behind so many tokens.
    Tokens(usize),
    /// `[1, rows, columns, dim]`.
    ChannelsLast,
    /// `[1, dim, rows, columns]`. (timm cannot change the image size of models with such a map.)
    ChannelsFirst,
}

impl Bicubic {
    /// Resizes position embeddings of a square map to a map of rows and columns. Tokens before the map do not change.
    ///
    /// `None` if the embeddings do not have this form.
    pub(crate) fn resample(
        self,
        embedding: &TensorData,
        to @ [rows, columns]: [usize; 2],
        form: Form,
    ) -> Option<TensorData> {
        let (before, sides, width, shape) = match (form, embedding.shape().as_slice()) {
            (Form::Tokens(prefix), &[1, tokens, dim]) => {
                let patches = tokens.checked_sub(prefix)?;
                let side = patches.isqrt();
                // Not equal, or with a remainder, if the map is no square.
                let sides = [side, patches.checked_div(side)?];
                let shape = vec![1, prefix + rows * columns, dim];
                (prefix * dim, sides, dim, shape)
            }
            (Form::ChannelsLast, &[1, height, width, dim]) => {
                (0, [height, width], dim, vec![1, rows, columns, dim])
            }
            // As many maps of single numbers as there are channels.
            (Form::ChannelsFirst, &[1, dim, height, width]) => {
                (0, [height, width], 1, vec![1, dim, rows, columns])
            }
            _ => return None,
        };
        let values = embedding.as_slice::<f32>().ok()?;
        let (before, maps) = values.split_at_checked(before)?;
        let [side, _] = sides;
        let of_a_map = side.pow(2) * width;
        if of_a_map == 0 || sides != [side; 2] || !maps.len().is_multiple_of(of_a_map) {
            return None;
        }
        let [rows_of, columns_of] = to.map(|output| self.taps(side, output));
        let maps = maps.chunks_exact(of_a_map);
        let resized = maps.flat_map(|map| interpolate([&rows_of, &columns_of], map, side, width));
        let values: Vec<f32> = before.iter().copied().chain(resized).collect();
        Some(TensorData::new(values, shape))
    }

    /// As [`interpolated`](Self::interpolated), for a map after `prefix` tokens, whose embeddings do not change.
    ///
    /// # Shapes
    ///
    /// `[1, prefix + rows * columns, dim]` of the sizes `from` and `to`.
    pub(crate) fn interpolated_behind(
        self,
        prefix: usize,
        embedding: Tensor<3>,
        from: [usize; 2],
        to: [usize; 2],
    ) -> Tensor<3> {
        if from == to || prefix == 0 {
            return self.interpolated(embedding, from, to);
        }
        let tokens = embedding.clone().narrow(1, 0, prefix);
        let map = embedding.narrow(1, prefix, from.iter().product());
        Tensor::cat(vec![tokens, self.interpolated(map, from, to)], 1)
    }

    /// The position embeddings of a map, from the embeddings of a map of another size. If the sizes are equal, the embeddings are
    /// returned unchanged. Gradients reach them through two small matrix products.
    ///
    /// # Shapes
    ///
    /// `[1, rows * columns, dim]` of the sizes `from` and `to`.
    pub(crate) fn interpolated(
        self,
        embedding: Tensor<3>,
        from: [usize; 2],
        to @ [rows, columns]: [usize; 2],
    ) -> Tensor<3> {
        if from == to {
            return embedding;
        }
        let (dim, device, dtype) = (embedding.dims()[2], embedding.device(), embedding.dtype());
        let weights = |axis: usize| {
            let (input, output) = (from[axis], to[axis]);
            let weights = matrix(&self.taps(input, output), input);
            let weights = TensorData::new(weights, [output, input]);
            Tensor::<2>::from_data(weights, (&device, dtype))
        };
        let by_rows = weights(0).matmul(embedding.reshape([from[0], from[1] * dim]));
        let by_columns = weights(1).unsqueeze::<3>().expand([rows, columns, from[1]]);
        by_columns
            .matmul(by_rows.reshape([rows, from[1], dim]))
            .reshape([1, rows * columns, dim])
    }

    /// PyTorch's weights from `input` to `output` samples.
    fn taps(self, input: usize, output: usize) -> Vec<Tap> {
        let scale = match self {
            Self::Antialiased | Self::Plain => input as f64 / output as f64,
            Self::Dino => input as f64 / (output as f64 + 0.1),
        };
        (0..output)
            .map(|i| {
                let center = scale * (i as f64 + 0.5);
                match self {
                    Self::Antialiased => antialiased(center, scale, input),
                    Self::Plain | Self::Dino => plain(center, input),
                }
            })
            .collect()
    }
}

/// When shrinking, the kernel is widened by the scale; places beyond the border are left out.
fn antialiased(center: f64, scale: f64, input: usize) -> Tap {
    let stretch = scale.max(1.0);
    let support = 2.0 * stretch;
    let first = (center - support + 0.5).max(0.0) as usize;
    let end = ((center + support + 0.5) as usize).min(input);
    let weights: Vec<f64> = (first..end)
        .map(|j| cubic((j as f64 - center + 0.5) / stretch, -0.5))
        .collect();
    let total: f64 = weights.iter().sum();
    let weights = weights.into_iter().map(|weight| weight / total).collect();
    Tap { first, weights }
}

/// Places beyond the border have the value of the border.
fn plain(center: f64, input: usize) -> Tap {
    let place = center - 0.5;
    let before = place.floor() as i64 - 1;
    let last = input.saturating_sub(1) as i64;
    let first = before.clamp(0, last);
    let mut weights = vec![0.0; ((before + 3).clamp(0, last) - first) as usize + 1];
    for j in before..before + 4 {
        let at = (j.clamp(0, last) - first) as usize;
        weights[at] += cubic(j as f64 - place, -0.75);
    }
    Tap {
        first: first as usize,
        weights,
    }
}

/// Keys' cubic kernel; PyTorch uses a = -1/2 when antialiasing, and -3/4 otherwise.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use burn::tensor::Device;
    use safetensors::SafeTensors;
    use serde_json::Value;

    use super::*;
    use crate::weights::read;

    /// Written by `scripts/reference/deit.py` with timm's `resample_abs_pos_embed`.
    #[test]
    fn resizes_as_timm_does() {
        compare(Bicubic::Antialiased, "pos_embed");
    }

    /// Written by `scripts/reference/t2t.py` with PyTorch's `interpolate`.
    #[test]
    fn resizes_as_pytorch_does() {
        compare(Bicubic::Plain, "pos_embed_plain");
    }

    /// Written by `scripts/reference/dino.py` with PyTorch's `interpolate` and a factor.
    #[test]
    fn resizes_as_dino_does() {
        compare(Bicubic::Dino, "pos_embed_dino");
    }

    /// The numbers from `first` on.
    fn values_of(data: &TensorData, first: usize) -> Vec<f32> {
        data.try_to_vec::<f32>().unwrap().split_off(first)
    }

    fn compare(bicubic: Bicubic, file: &str) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR"));
        let golden = golden.join(format!("tests/golden/{file}.safetensors"));
        let bytes = fs_err::read(&golden).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = &header.metadata().as_ref().unwrap()["config"];
        let config: Value = serde_json::from_str(config).unwrap();
        let tensors = read(&golden).unwrap();

        let mut compared = 0;
        for (case, config) in config.as_object().unwrap() {
            let size = |value: &Value| value.as_u64().unwrap() as usize;
            let (rows, columns) = (size(&config["grid"][0]), size(&config["grid"][1]));
            let tensor = |name| tensors.get(&format!("{case}.{name}")).unwrap();
            let prefix = size(&config["prefix_tokens"]);
            let resized = bicubic
                .resample(tensor("input"), [rows, columns], Form::Tokens(prefix))
                .unwrap();
            assert_eq!(resized.shape(), tensor("output").shape(), "{case}");
            let expected = tensor("output").try_to_vec::<f32>().unwrap();
            let close = |resized: Vec<f32>, expected: &[f32]| {
                assert_eq!(resized.len(), expected.len(), "{case}");
                for (value, expected) in resized.iter().zip(expected) {
                    assert!(
                        (value - expected).abs() < 1e-5,
                        "{case}: {value} != {expected}"
                    );
                }
            };
            close(resized.try_to_vec().unwrap(), &expected);

            // The same on the device, which handles only the patches.
            let input = Tensor::<3>::from_data(tensor("input").clone(), &Device::flex());
            let [_, tokens, dim] = input.dims();
            let side = (tokens - prefix).isqrt();
            let patches = input.narrow(1, prefix, side * side);
            let resized = bicubic
                .interpolated(patches, [side, side], [rows, columns])
                .into_data();
            close(resized.try_to_vec().unwrap(), &expected[prefix * dim..]);
            if rows == columns {
                let patches = TensorData::new(
                    values_of(tensor("input"), prefix * dim),
                    [1, side, side, dim],
                );
                let resized = bicubic
                    .resample(&patches, [rows; 2], Form::ChannelsLast)
                    .unwrap();
                assert_eq!(resized.shape().as_slice(), [1, rows, rows, dim], "{case}");
                close(resized.try_to_vec().unwrap(), &expected[prefix * dim..]);
            }
            compared += usize::from(rows != columns);
        }
        assert!(compared >= 1, "no case that is not square");
    }

    #[test]
    fn a_map_is_resized_as_its_tokens_are() {
        let (dim, side, grid) = (3, 4, 7);
        let value = |channel: usize, patch: usize| ((channel * 31 + patch * 17) % 23) as f32;
        let map: Vec<f32> = (0..dim * side * side)
            .map(|i| value(i / (side * side), i % (side * side)))
            .collect();
        let tokens: Vec<f32> = (0..side * side * dim)
            .map(|i| value(i % dim, i / dim))
            .collect();
        let resized = |embedding: TensorData, form| {
            let resized = Bicubic::Antialiased.resample(&embedding, [grid; 2], form);
            resized.unwrap()
        };
        let map = TensorData::new(map, [1, dim, side, side]);
        let map = resized(map, Form::ChannelsFirst);
        let tokens = TensorData::new(tokens, [1, side * side, dim]);
        let tokens = resized(tokens, Form::Tokens(0));
        assert_eq!(map.shape().as_slice(), [1, dim, grid, grid]);
        let map = map.try_to_vec::<f32>().unwrap();
        for (i, token) in tokens.try_to_vec::<f32>().unwrap().iter().enumerate() {
            assert_eq!(map[i % dim * grid * grid + i / dim], *token);
        }
    }

    #[test]
    fn only_square_grids_are_resized() {
        let is_resized = |shape: &[usize], form| {
            let embedding = TensorData::zeros::<f32, _>(shape.to_vec());
            let resized = Bicubic::Antialiased.resample(&embedding, [2, 2], form);
            resized.is_some()
        };
        assert!(is_resized(&[1, 4, 3, 3], Form::ChannelsFirst));
        assert!(!is_resized(&[1, 4, 3, 2], Form::ChannelsFirst));
        assert!(!is_resized(&[4, 3, 3], Form::ChannelsFirst));
        assert!(is_resized(&[1, 3, 3, 4], Form::ChannelsLast));
        assert!(!is_resized(&[1, 3, 2, 4], Form::ChannelsLast));

        for (prefix, is_square) in [(1, true), (2, false), (8, false), (9, true), (10, false)] {
            let form = Form::Tokens(prefix);
            assert_eq!(is_resized(&[1, 10, 4], form), is_square, "{prefix}");
        }
        assert!(!is_resized(&[1, 10, 4], Form::Tokens(11)));
        assert!(!is_resized(&[10, 4], Form::Tokens(1)));
    }
}
