//! Conversion between paths through the modules and the original's names, which number the entries of its lists.

use crate::family::naming::numbered;

/// Modules of the original's `patch_embed.conv` per convolution: the convolution, its norm, and an activation.
const PER_CONVOLUTION: usize = 3;
/// The place of the first stage of transformer blocks in the original's `network`.
const FIRST: usize = 2;

/// The original's name of the parameter at a path.
pub(super) fn to_name(path: &str) -> String {
    let renamed = || match path.split_once('.')? {
        ("outlookers", rest) => Some(format!("network.0.{rest}")),
        ("downsample", rest) => Some(format!("network.1.{rest}")),
        ("stages", rest) => {
            let (stage, rest) = numbered(rest)?;
            Some(format!("network.{}.{rest}", stage + FIRST))
        }
        ("stem", rest) => {
            let (layer, rest) = numbered(rest)?;
            let (module, rest) = rest.split_once('.')?;
            let place = PER_CONVOLUTION * layer + usize::from(module == "bn");
            Some(format!("patch_embed.conv.{place}.{rest}"))
        }
        _ => None,
    };
    renamed().unwrap_or_else(|| path.to_owned())
}

/// The path to the parameter of the original's name.
pub(super) fn from_name(name: &str) -> String {
    let renamed = || {
        if let Some(rest) = name.strip_prefix("patch_embed.conv.") {
            let (place, rest) = numbered(rest)?;
            let module = ["conv", "bn"].get(place % PER_CONVOLUTION)?;
            return Some(format!("stem.{}.{module}.{rest}", place / PER_CONVOLUTION));
        }
        let (place, rest) = numbered(name.strip_prefix("network.")?)?;
        Some(match place {
            0 => format!("outlookers.{rest}"),
            1 => format!("downsample.{rest}"),
            _ => format!("stages.{}.{rest}", place - FIRST),
        })
    };
    renamed().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_originals() {
        for (path, name) in [
            ("stem.0.conv.weight", "patch_embed.conv.0.weight"),
            ("stem.0.bn.running_var", "patch_embed.conv.1.running_var"),
            ("stem.2.conv.weight", "patch_embed.conv.6.weight"),
            ("stem.2.bn.bias", "patch_embed.conv.7.bias"),
            ("patch_embed.proj.bias", "patch_embed.proj.bias"),
            ("outlookers.3.attn.v.weight", "network.0.3.attn.v.weight"),
            ("downsample.proj.weight", "network.1.proj.weight"),
            ("stages.0.1.norm1.bias", "network.2.1.norm1.bias"),
            ("stages.2.0.mlp.fc1.bias", "network.4.0.mlp.fc1.bias"),
            (
                "post_network.1.attn.kv.weight",
                "post_network.1.attn.kv.weight",
            ),
            ("pos_embed", "pos_embed"),
            ("norm.weight", "norm.weight"),
        ] {
            assert_eq!(to_name(path), name);
            assert_eq!(from_name(name), path);
        }
        // No parameter has these names, but a file may.
        for name in ["patch_embed.conv.2.weight", "network.x.weight", "network"] {
            assert_eq!(from_name(name), name);
        }
    }
}
