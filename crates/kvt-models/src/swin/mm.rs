//! Names of weights in MMSegmentation and MMDetection.
//!
//! They merge patches at the end of a stage, as the original, and order the channels of four patches as an unfolding
//! does: channel by channel, each with its four patches row by row. The original orders them patch by patch, column by
//! column.

use burn::tensor::TensorData;

use crate::family::Renaming;
use crate::weights::StateDict;

/// A module of every Swin there.
const SIGNATURE: &str = "stages.0.blocks.0.attn.w_msa.qkv.weight";
/// Stages there, and here.
const STAGES: Renaming = Renaming::Beginnings(&[
    ("stages.#.downsample.", "layers.#.downsample.", 1),
    ("stages.#.", "layers.#.", 0),
]);
/// Parts of names there, and here.
const PARTS: [(&str, &str); 4] = [
    ("patch_embed.projection.", "patch_embed.proj."),
    (".attn.w_msa.", ".attn."),
    (".ffn.layers.0.0.", ".mlp.fc1."),
    (".ffn.layers.1.", ".mlp.fc2."),
];

/// Weights of a backbone under timm's names, if they have MMSegmentation's; others as they are.
pub(super) fn to_timm(weights: StateDict) -> StateDict {
    if weights.get(SIGNATURE).is_none() {
        return weights;
    }
    let weights = weights.into_iter().map(|(name, data)| {
        let mut renamed = STAGES.own(&name);
        for (part, own) in PARTS {
            renamed = renamed.replace(part, own);
        }
        let merges = renamed.contains(".downsample.");
        let ordered = merges.then(|| patch_by_patch(&data)).flatten();
        (renamed, ordered.unwrap_or(data))
    });
    weights.collect()
}

/// A weight of a merging of patches, `[.., 4 * dim]`, with its last dimension in the original's order.
fn patch_by_patch(data: &TensorData) -> Option<TensorData> {
    let shape = data.shape().to_vec();
    let width = *shape.last()?;
    if width == 0 || !width.is_multiple_of(4) {
        return None;
    }
    let values = data.as_slice::<f32>().ok()?;
    // Top left, bottom left, top right, bottom right.
    let order = [0, 2, 1, 3];
    let mut ordered: Vec<f32> = Vec::with_capacity(values.len());
    for row in values.chunks_exact(width) {
        for place in order {
            ordered.extend(row.iter().skip(place).step_by(4));
        }
    }
    Some(TensorData::new(ordered, shape))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_and_orders_become_timms() {
        // Two channels of four patches: the first number is the channel, the second the patch, row by row.
        let merged = TensorData::new(vec![0.0f32, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0], [1, 8]);
        let any = TensorData::new(vec![0.0f32], [1]);
        let names = [
            ("patch_embed.projection.weight", "patch_embed.proj.weight"),
            ("patch_embed.norm.bias", "patch_embed.norm.bias"),
            (SIGNATURE, "layers.0.blocks.0.attn.qkv.weight"),
            (
                "stages.2.blocks.5.attn.w_msa.relative_position_bias_table",
                "layers.2.blocks.5.attn.relative_position_bias_table",
            ),
            (
                "stages.0.blocks.1.norm2.bias",
                "layers.0.blocks.1.norm2.bias",
            ),
            (
                "stages.3.blocks.0.ffn.layers.0.0.weight",
                "layers.3.blocks.0.mlp.fc1.weight",
            ),
            (
                "stages.3.blocks.0.ffn.layers.1.bias",
                "layers.3.blocks.0.mlp.fc2.bias",
            ),
            ("norm3.weight", "norm3.weight"),
        ];
        let mut weights: StateDict = names
            .iter()
            .map(|(mm, _)| ((*mm).to_owned(), any.clone()))
            .collect();
        weights.insert("stages.0.downsample.reduction.weight", merged);
        let mut expected: Vec<&str> = names.iter().map(|(_, timm)| *timm).collect();
        expected.push("layers.1.downsample.reduction.weight");
        expected.sort_unstable();

        let timm = to_timm(weights);
        let found: Vec<&str> = timm.iter().map(|(name, _)| name).collect();
        assert_eq!(found, expected);
        let merged = timm.get("layers.1.downsample.reduction.weight").unwrap();
        let values = merged.as_slice::<f32>().unwrap();
        assert_eq!(values, [0.0, 10.0, 2.0, 12.0, 1.0, 11.0, 3.0, 13.0]);
        assert_eq!(to_timm(timm.clone()), timm);
    }
}
