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

/// Resizes a map of position embeddings `[1, dim, side, side]` to `grid` x `grid` patches, antialiased. (timm
/// cannot change the image size of models with such a map.)
///
/// `None` if the embeddings do not have this form.
pub(crate) fn resample_map(embedding: &TensorData, grid: usize) -> Option<TensorData> {
    let [1, dim, side, columns] = *embedding.shape().as_slice() else {
        return None;
    };
    if side == 0 || side != columns {
        return None;
    }
    let taps = Bicubic::Antialiased.taps(side, grid);
    let channels = embedding.as_slice::<f32>().ok()?.chunks_exact(side * side);
    let values: Vec<f32> = channels
        .flat_map(|channel| interpolate([&taps, &taps], channel, side, 1))
        .collect();
    Some(TensorData::new(values, [1, dim, grid, grid]))
}

impl Bicubic {
    /// Resizes learned position embeddings `[1, prefix + side * side, dim]` to a map of rows and columns.
    ///
    /// `None` if the embeddings do not have this form.
    pub(crate) fn resample(
        self,
        embedding: &TensorData,
        [rows, columns]: [usize; 2],
        prefix: usize,
    ) -> Option<TensorData> {
        let [1, tokens, dim] = *embedding.shape().as_slice() else {
            return None;
        };
        let patches = tokens.checked_sub(prefix)?;
        let side = patches.isqrt();
        if side == 0 || side * side != patches || dim == 0 {
            return None;
        }
        let values = embedding.as_slice::<f32>().ok()?;
        let (prefix_values, patches) = values.split_at_checked(prefix * dim)?;

        let (rows_of, columns_of) = (self.taps(side, rows), self.taps(side, columns));
        let resized = interpolate([&rows_of, &columns_of], patches, side, dim);
        let values: Vec<f32> = prefix_values.iter().copied().chain(resized).collect();
        Some(TensorData::new(values, [1, prefix + rows * columns, dim]))
    }

    /// Resizes position embeddings `[1, side, side, dim]` to `grid` x `grid` patches.
    ///
    /// `None` if the embeddings do not have this form.
    pub(crate) fn resample_grid(self, embedding: &TensorData, grid: usize) -> Option<TensorData> {
        let [1, side, columns, dim] = *embedding.shape().as_slice() else {
            return None;
        };
        if side == 0 || side != columns || dim == 0 {
            return None;
        }
        let taps = self.taps(side, grid);
        let values = embedding.as_slice::<f32>().ok()?;
        let values = interpolate([&taps, &taps], values, side, dim);
        Some(TensorData::new(values, [1, grid, grid, dim]))
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
                .resample(tensor("input"), [rows, columns], prefix)
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
                let resized = bicubic.resample_grid(&patches, rows).unwrap();
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
        let map = resample_map(&TensorData::new(map, [1, dim, side, side]), grid).unwrap();
        let tokens = Bicubic::Antialiased
            .resample(
                &TensorData::new(tokens, [1, side * side, dim]),
                [grid; 2],
                0,
            )
            .unwrap();
        assert_eq!(map.shape().as_slice(), [1, dim, grid, grid]);
        let map = map.try_to_vec::<f32>().unwrap();
        for (i, token) in tokens.try_to_vec::<f32>().unwrap().iter().enumerate() {
            assert_eq!(map[i % dim * grid * grid + i / dim], *token);
        }
    }

    #[test]
    fn only_square_grids_are_resized() {
        assert!(resample_map(&TensorData::zeros::<f32, _>([1, 4, 3, 3]), 2).is_some());
        assert!(resample_map(&TensorData::zeros::<f32, _>([1, 4, 3, 2]), 2).is_none());
        assert!(resample_map(&TensorData::zeros::<f32, _>([4, 3, 3]), 2).is_none());

        let embedding = TensorData::zeros::<f32, _>([1, 10, 4]);
        let resample = |embedding: &TensorData, prefix| {
            Bicubic::Antialiased.resample(embedding, [2, 2], prefix)
        };
        assert!(resample(&embedding, 1).is_some());
        assert!(resample(&embedding, 2).is_none());
        assert!(resample(&embedding, 11).is_none());
        assert!(resample(&TensorData::zeros::<f32, _>([10, 4]), 1).is_none());
    }
}
