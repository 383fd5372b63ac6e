//! Position embeddings of another image size, as timm's `resample_abs_pos_embed` makes them: antialiased
//! bicubic, prefix tokens kept as they are. On the host for weights that are loaded, on the device for
//! images of another size than the model's.

use burn::tensor::{Tensor, TensorData};

use super::interpolate::{Tap, interpolate, matrix};

/// Resizes learned position embeddings `[1, prefix + side * side, dim]` to `grid` patches, rows and
/// columns.
///
/// `None` where the embeddings are not of this form.
pub(crate) fn resample(
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

    let (rows_of, columns_of) = (taps(side, rows), taps(side, columns));
    let resized = interpolate([&rows_of, &columns_of], patches, side, dim);
    let values: Vec<f32> = prefix_values.iter().copied().chain(resized).collect();
    Some(TensorData::new(values, [1, prefix + rows * columns, dim]))
}

/// Resizes a map of position embeddings `[1, dim, side, side]` to `grid` x `grid` patches in the same
/// way. (timm cannot change the image size of models that have one.)
///
/// `None` where the embeddings are not of this form.
pub(crate) fn resample_map(embedding: &TensorData, grid: usize) -> Option<TensorData> {
    let [1, dim, side, columns] = *embedding.shape().as_slice() else {
        return None;
    };
    if side == 0 || side != columns {
        return None;
    }
    let taps = taps(side, grid);
    let channels = embedding.as_slice::<f32>().ok()?.chunks_exact(side * side);
    let values: Vec<f32> = channels
        .flat_map(|channel| interpolate([&taps, &taps], channel, side, 1))
        .collect();
    Some(TensorData::new(values, [1, dim, grid, grid]))
}

/// The position embeddings of a map, from the embeddings of a map of another size. Gradients reach them
/// through two small matrix products. Where the sizes are equal, the embeddings are returned as they are.
///
/// # Shapes
///
/// `[1, rows * columns, dim]` of the sizes `from` and `to`.
pub(crate) fn interpolated(
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
        let weights = TensorData::new(matrix(&taps(input, output), input), [output, input]);
        Tensor::<2>::from_data(weights, (&device, dtype))
    };
    let by_rows = weights(0).matmul(embedding.reshape([from[0], from[1] * dim]));
    let by_columns = weights(1).unsqueeze::<3>().expand([rows, columns, from[1]]);
    by_columns
        .matmul(by_rows.reshape([rows, from[1], dim]))
        .reshape([1, rows * columns, dim])
}

/// PyTorch's antialiased bicubic weights from `input` to `output` samples: when shrinking, the
/// kernel is widened by the scale.
fn taps(input: usize, output: usize) -> Vec<Tap> {
    let scale = input as f64 / output as f64;
    let stretch = scale.max(1.0);
    let support = 2.0 * stretch;
    (0..output)
        .map(|i| {
            let center = scale * (i as f64 + 0.5);
            let first = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(input);
            let weights: Vec<f64> = (first..end)
                .map(|j| cubic((j as f64 - center + 0.5) / stretch))
                .collect();
            let total: f64 = weights.iter().sum();
            let weights = weights.into_iter().map(|weight| weight / total).collect();
            Tap { first, weights }
        })
        .collect()
}

/// Keys' cubic kernel with a = -1/2, which PyTorch uses when antialiasing (-3/4 otherwise).
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
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

    #[test]
    fn resizes_as_timm_does() {
        // Written by `scripts/reference/deit.py` with timm's `resample_abs_pos_embed`.
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pos_embed.safetensors");
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
            let resized = resample(tensor("input"), [rows, columns], prefix).unwrap();
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

            // The same on the device, which leaves the prefix tokens to the model.
            let input = Tensor::<3>::from_data(tensor("input").clone(), &Device::flex());
            let [_, tokens, dim] = input.dims();
            let side = (tokens - prefix).isqrt();
            let patches = input.narrow(1, prefix, side * side);
            let resized = interpolated(patches, [side, side], [rows, columns]).into_data();
            close(resized.try_to_vec().unwrap(), &expected[prefix * dim..]);
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
        let tokens = resample(
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
        assert!(resample(&embedding, [2, 2], 1).is_some());
        assert!(resample(&embedding, [2, 2], 2).is_none());
        assert!(resample(&embedding, [2, 2], 11).is_none());
        assert!(resample(&TensorData::zeros::<f32, _>([10, 4]), [2, 2], 1).is_none());
    }
}
