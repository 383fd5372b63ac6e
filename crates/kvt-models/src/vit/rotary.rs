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
