//! Names of weights: of the modules here, in timm, and in the original repository.

use burn::tensor::TensorData;

use crate::family::Renaming;
use crate::weights::StateDict;

/// Paths through the modules, and timm's names.
pub(super) const PATHS: Renaming = Renaming::Beginnings(&[
    ("blocks.#.inner.norm1.", "blocks.#.norm_in.", 0),
    ("blocks.#.inner.attn.", "blocks.#.attn_in.", 0),
    ("blocks.#.inner.norm2.", "blocks.#.norm_mlp_in.", 0),
    ("blocks.#.inner.mlp.", "blocks.#.mlp_in.", 0),
    ("blocks.#.outer.norm1.", "blocks.#.norm_out.", 0),
    ("blocks.#.outer.attn.", "blocks.#.attn_out.", 0),
    ("blocks.#.outer.norm2.", "blocks.#.norm_mlp.", 0),
    ("blocks.#.outer.mlp.", "blocks.#.mlp.", 0),
]);

/// The original's names, and timm's.
pub(super) const OFFICIAL: Renaming = Renaming::Beginnings(&[
    ("outer_pos", "patch_pos", 0),
    ("inner_pos", "pixel_pos", 0),
    ("patch_embed.", "pixel_embed.", 0),
    ("proj_norm1.", "norm1_proj.", 0),
    ("proj_norm2.", "norm2_proj.", 0),
    ("blocks.#.proj_norm1.", "blocks.#.norm1_proj.", 0),
    ("blocks.#.proj_norm2.", "blocks.#.norm2_proj.", 0),
    ("blocks.#.inner_norm1.", "blocks.#.norm_in.", 0),
    ("blocks.#.inner_attn.", "blocks.#.attn_in.", 0),
    ("blocks.#.inner_norm2.", "blocks.#.norm_mlp_in.", 0),
    ("blocks.#.inner_mlp.", "blocks.#.mlp_in.", 0),
    ("blocks.#.outer_norm1.", "blocks.#.norm_out.", 0),
    ("blocks.#.outer_attn.", "blocks.#.attn_out.", 0),
    ("blocks.#.outer_norm2.", "blocks.#.norm_mlp.", 0),
    ("blocks.#.outer_mlp.", "blocks.#.mlp.", 0),
]);

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    weights.get("outer_pos").is_some()
}

/// A weight in the order of the other layout, by timm's name: positions of pixels are tokens in the original,
/// `[1, side * side, dim]`, and a map in timm, `[1, dim, side, side]`.
pub(super) fn reordered(name: &str, data: &TensorData) -> Option<TensorData> {
    let (rows, columns, shape) = match *data.shape().as_slice() {
        [1, pixels, dim] => {
            let side = pixels.isqrt();
            (pixels, dim, vec![1, dim, side, side])
        }
        [1, dim, height, width] => (dim, height * width, vec![1, height * width, dim]),
        _ => return None,
    };
    if name != "pixel_pos" || shape.iter().product::<usize>() != rows * columns {
        return None;
    }
    let data = data.clone().try_cast_as::<f32>().ok()?;
    let values = data.as_slice::<f32>().ok()?;
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    let turned: Option<Vec<f32>> = places.map(|place| values.get(place).copied()).collect();
    Some(TensorData::new(turned?, shape))
}
