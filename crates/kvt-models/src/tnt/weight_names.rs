//! Names of weights: of the modules here, in timm, and in the original repository.

use burn::tensor::TensorData;

use crate::weights::StateDict;

/// Parts of a block, as paths of modules, and their names in timm.
const PARTS: [(&str, &str); 8] = [
    ("inner.norm1", "norm_in"),
    ("inner.attn", "attn_in"),
    ("inner.norm2", "norm_mlp_in"),
    ("inner.mlp", "mlp_in"),
    ("outer.norm1", "norm_out"),
    ("outer.attn", "attn_out"),
    ("outer.norm2", "norm_mlp"),
    ("outer.mlp", "mlp"),
];

/// Parts of names in timm, and in the original.
const OFFICIAL: [(&str, &str); 13] = [
    ("patch_pos", "outer_pos"),
    ("pixel_pos", "inner_pos"),
    ("pixel_embed", "patch_embed"),
    ("norm1_proj", "proj_norm1"),
    ("norm2_proj", "proj_norm2"),
    ("norm_in", "inner_norm1"),
    ("attn_in", "inner_attn"),
    ("norm_mlp_in", "inner_norm2"),
    ("mlp_in", "inner_mlp"),
    ("norm_out", "outer_norm1"),
    ("attn_out", "outer_attn"),
    ("norm_mlp", "outer_norm2"),
    ("mlp", "outer_mlp"),
];

/// timm's name of the parameter at a path.
pub(super) fn name(path: &str) -> String {
    in_block(path, |rest| {
        PARTS.iter().find_map(|(path, name)| {
            let rest = rest.strip_prefix(path)?;
            rest.starts_with('.').then(|| format!("{name}{rest}"))
        })
    })
}

/// The path to a parameter of timm's name.
pub(super) fn path(name: &str) -> String {
    in_block(name, |rest| {
        let (part, rest) = rest.split_once('.')?;
        let (path, _) = PARTS.iter().find(|(_, name)| *name == part)?;
        Some(format!("{path}.{rest}"))
    })
}

/// Changes the part of a name after the number of a block.
fn in_block(name: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let changed = name.strip_prefix("blocks.").and_then(|rest| {
        let (number, rest) = rest.split_once('.')?;
        Some(format!("blocks.{number}.{}", change(rest)?))
    });
    changed.unwrap_or_else(|| name.to_owned())
}

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    weights.get("outer_pos").is_some()
}

/// timm's name of a weight of the original.
pub(super) fn timm_name(official: &str) -> String {
    by_parts(official, |part| {
        let known = OFFICIAL.iter().find(|(_, official)| *official == part);
        known.map_or(part, |(timm, _)| timm)
    })
}

/// The original's name of a weight of timm's.
pub(super) fn official_name(timm: &str) -> String {
    by_parts(timm, |part| {
        let known = OFFICIAL.iter().find(|(timm, _)| *timm == part);
        known.map_or(part, |(_, official)| official)
    })
}

fn by_parts<'a>(name: &'a str, change: impl Fn(&'a str) -> &'a str) -> String {
    let parts: Vec<&str> = name.split('.').map(change).collect();
    parts.join(".")
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
