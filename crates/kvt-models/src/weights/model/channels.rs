//! The first convolution of weights for colour images, for a model of other channels: timm's `adapt_input_conv`.

use burn::tensor::TensorData;

/// The channels of the weights.
const COLOURS: usize = 3;

/// A convolution `[outputs, 3, height, width]` as one of `shape`, `[outputs, channels, height, width]`: summed over the colours for one
/// channel, which gives a grey image the outputs of its repetition, or else with the colours repeated in turn, times 3 / channels.
///
/// `None` if another number than that of the channels differs, or it is no convolution of colours: only the first of a model is.
pub(super) fn adapted(weight: &TensorData, shape: &[usize]) -> Option<TensorData> {
    let [outputs, COLOURS, height, width] = *weight.shape().as_slice() else {
        return None;
    };
    let [_, channels, ..] = *shape else {
        return None;
    };
    if channels == 0 || shape != [outputs, channels, height, width] {
        return None;
    }
    let plane = height * width;
    let mut values = Vec::with_capacity(outputs * channels * plane);
    for output in weight.as_slice::<f32>().ok()?.chunks_exact(COLOURS * plane) {
        let colour = |number: usize| output.iter().skip(number * plane).take(plane);
        if channels == 1 {
            let rest = colour(1).zip(colour(2));
            values.extend(
                colour(0)
                    .zip(rest)
                    .map(|(red, (green, blue))| red + green + blue),
            );
        } else {
            let scale = (COLOURS as f64 / channels as f64) as f32;
            let repeated = (0..channels).flat_map(|channel| colour(channel % COLOURS));
            values.extend(repeated.map(|value| value * scale));
        }
    }
    Some(TensorData::new(values, shape.to_vec()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use super::*;
    use crate::weights::read;

    /// Written by `scripts/reference/channels.py` with timm's `adapt_input_conv`.
    #[test]
    fn channels_are_timms() {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/channels.safetensors");
        let tensors = read(&golden).unwrap();
        let colours = tensors.get("colours").unwrap();
        let mut shapes = Vec::new();
        for channels in [1, 2, 4, 7] {
            let expected = tensors.get(&format!("channels_{channels}")).unwrap();
            let found = adapted(colours, expected.shape().as_slice()).unwrap();
            assert_eq!(found.shape(), expected.shape());
            let [found, expected] =
                [&found, expected].map(|data| data.try_to_vec::<f32>().unwrap());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() <= 1e-6,
                    "{channels}: {found} {expected}"
                );
            }
            shapes.push(expected.len());
        }
        let one = colours.num_elements() / 3;
        assert_eq!(shapes, [one, 2 * one, 4 * one, 7 * one]);
    }

    #[test]
    fn nothing_else_is_adapted() {
        let colours = TensorData::zeros::<f32, _>([4, 3, 2, 2]);
        for shape in [&[5, 1, 2, 2][..], &[4, 1, 2, 3], &[4, 0, 2, 2], &[4, 1]] {
            assert!(adapted(&colours, shape).is_none(), "{shape:?}");
        }
        // Weights of other channels, and a linear layer.
        let grey = TensorData::zeros::<f32, _>([4, 1, 2, 2]);
        assert!(adapted(&grey, &[4, 3, 2, 2]).is_none());
        let linear = TensorData::zeros::<f32, _>([4, 3]);
        assert!(adapted(&linear, &[4, 1]).is_none());
    }
}
