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

/// The weight of the original in timm's order, by timm's name: positions of pixels, which are tokens in the original,
/// `[1, side * side, dim]`, and a map in timm, `[1, dim, side, side]`.
pub(super) fn timm_order(name: &str, data: &TensorData) -> Option<TensorData> {
    let [1, pixels, dim] = *data.shape().as_slice() else {
        return None;
    };
    let side = pixels.isqrt();
    if name != "pixel_pos" || side * side != pixels {
        return None;
    }
    Some(TensorData::new(
        transposed(data, pixels, dim)?,
        [1, dim, side, side],
    ))
}

/// The inverse of [`timm_order`].
pub(super) fn official_order(name: &str, data: &TensorData) -> Option<TensorData> {
    let [1, dim, rows, columns] = *data.shape().as_slice() else {
        return None;
    };
    if name != "pixel_pos" {
        return None;
    }
    let pixels = rows * columns;
    Some(TensorData::new(
        transposed(data, dim, pixels)?,
        [1, pixels, dim],
    ))
}

fn transposed(data: &TensorData, rows: usize, columns: usize) -> Option<Vec<f32>> {
    let data = data.clone().try_cast_as::<f32>().ok()?;
    let values = data.as_slice::<f32>().ok()?;
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    places.map(|place| values.get(place).copied()).collect()
}
