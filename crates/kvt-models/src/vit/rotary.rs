//! The angles of rotary positions in two dimensions, as in DINOv3 (Siméoni et al. 2025, <https://arxiv.org/abs/2508.10104>):
//! timm's `RotaryEmbeddingDinoV3` in evaluation.

use std::f64::consts::TAU;

use burn::tensor::Device;
use kvt_attention::Rotary;

/// The largest period is this many times the smallest, up to one step: timm's `rope_temperature` of DINOv3.
const TEMPERATURE: f64 = 100.0;

/// What turns the tokens of a map of `[rows, columns]` behind `prefix` tokens, whatever the size of the image: positions go from -1
/// to 1 along each axis. Half of the planes of a head turn with the row, the others with the column. `head_dim` is a multiple of 4.
pub(super) fn rotary(
    prefix: usize,
    [rows, columns]: [usize; 2],
    head_dim: usize,
    device: &Device,
) -> Rotary {
    let planes = head_dim / 4;
    let place = |index: usize, count: usize| 2.0 * (index as f64 + 0.5) / count as f64 - 1.0;
    let along = |place: f64| {
        (0..planes).map(move |plane| {
            let period = TEMPERATURE.powf(plane as f64 / planes as f64);
            TAU * place / period
        })
    };
    let tokens = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let angles: Vec<f64> = tokens
        .flat_map(|(row, column)| along(place(row, rows)).chain(along(place(column, columns))))
        .collect();
    Rotary::new(prefix, &angles, head_dim, device)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Tensor, TensorData};

    use super::*;

    /// A head of four channels has a plane for the rows and one for the columns, each of period 1.
    #[test]
    fn rows_and_columns_turn_planes_of_their_own() {
        let device = Device::flex();
        let rotary = rotary(1, [2, 1], 4, &device);
        let x = TensorData::new([1.0f32, 2.0, 3.0, 4.0].repeat(3), [1, 1, 3, 4]);
        let x = rotary.turn(Tensor::from_data(x, &device));
        let found: Vec<f32> = x.into_data().try_to_vec().unwrap();
        // The only column is the middle. Rows are at -1/2 and 1/2, half a turn to each side.
        let expected = [
            [1.0, 2.0, 3.0, 4.0],
            [-1.0, 2.0, -3.0, 4.0],
            [-1.0, 2.0, -3.0, 4.0],
        ];
        for (found, expected) in found.iter().zip(expected.concat()) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
