//! Position embeddings that are not learned (Vaswani et al., 2017).

use burn::tensor::TensorData;

/// The sinusoid of T2T-ViT and So-ViT, `[1, tokens, dim]`: at position `p` and channel `j` the angle is
/// `p / 10000^(2 floor(j / 2) / dim)`; even channels have its sine and odd ones its cosine. Computed in f64.
pub fn sinusoid(tokens: usize, dim: usize) -> TensorData {
    let value = |position: usize, channel: usize| {
        let exponent = 2.0 * (channel / 2) as f64 / dim as f64;
        let angle = position as f64 / 10_000_f64.powf(exponent);
        match channel % 2 {
            0 => angle.sin(),
            _ => angle.cos(),
        }
    };
    let values: Vec<f32> = (0..tokens)
        .flat_map(|position| (0..dim).map(move |channel| value(position, channel) as f32))
        .collect();
    TensorData::new(values, [1, tokens, dim])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Numbers of `get_sinusoid_encoding(197, 448)` of T2T-ViT.
    #[test]
    fn the_numbers_are_the_originals() {
        let data = sinusoid(197, 448);
        assert_eq!(data.shape().as_slice(), [1, 197, 448]);
        let values: Vec<f32> = data.try_to_vec().unwrap();
        let at = |token: usize, channel: usize| values[token * 448 + channel];
        assert_eq!([at(0, 0), at(0, 1), at(0, 447)], [0.0, 1.0, 1.0]);
        for (token, channel, expected) in ORIGINAL {
            let found = at(token, channel);
            assert!(
                (found - expected).abs() < 1e-6,
                "{token} {channel}: {found}"
            );
        }
    }

    /// Token, channel, number.
    const ORIGINAL: [(usize, usize, f32); 6] = [
        (1, 0, 0.841471),
        (1, 1, 0.540302),
        (1, 2, 0.819029),
        (196, 3, 0.924463),
        (100, 200, 0.997750),
        (196, 447, 0.999791),
    ];
}
