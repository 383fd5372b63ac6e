//! timm's named vision transformers that are more than a DeiT.

use super::VitConfig;
use super::options::{Embedding, Pool, VitOptions};
use crate::layers::Activation::{self, GeluTanh, QuickGelu, SwiGlu, SwiGluPacked};
use crate::layers::ScaleKind;

/// Models that differ only in size.
struct Kind {
    /// How their names begin and end, around the size and the side of a patch.
    family: &'static str,
    tag: &'static str,
    /// The image size that names leave out.
    own: Option<usize>,
    options: VitOptions,
    qkv_bias: bool,
    sizes: &'static [Size],
}

/// Name, channels, blocks, heads, `mlp_ratio`, side of a patch, and sides of the images.
type Size = (
    &'static str,
    usize,
    usize,
    usize,
    f64,
    usize,
    &'static [usize],
);

const DEIT: VitOptions = VitOptions::DEIT;
const DINO_V2: VitOptions = VitOptions {
    scale: Some(ScaleKind::Module(1e-5)),
    ..DEIT
};
const DINO_V2_REG: VitOptions = VitOptions {
    reg_tokens: 4,
    embedding: Embedding::Patches,
    ..DINO_V2
};
const DINO_V3: VitOptions = VitOptions {
    reg_tokens: 4,
    embedding: Embedding::Rotary,
    scale: Some(ScaleKind::Plain(1e-5)),
    unbiased_keys: true,
    pool: Pool::Mean,
    epsilon: 1e-5,
    ..DEIT
};
const CLIP: VitOptions = VitOptions {
    norm_pre: true,
    epsilon: 1e-5,
    ..DEIT
};
const SIGLIP: VitOptions = VitOptions {
    class_token: false,
    pool: Pool::Attention,
    ..DEIT
};
const SIGLIP_GAP: VitOptions = VitOptions {
    pool: Pool::Mean,
    ..SIGLIP
};
/// timm's own, "searching for better baselines".
const BASELINE: VitOptions = VitOptions {
    class_token: false,
    reg_tokens: 1,
    embedding: Embedding::Patches,
    scale: Some(ScaleKind::Module(1e-5)),
    pool: Pool::Mean,
    fc_norm: true,
    ..DEIT
};

/// A kind of `vit_*` whose names have no image size.
const fn unsized_kind(
    tag: &'static str,
    own: usize,
    options: VitOptions,
    sizes: &'static [Size],
) -> Kind {
    Kind {
        own: Some(own),
        ..kind(tag, options, sizes)
    }
}

/// A kind of `vit_*`.
const fn kind(tag: &'static str, options: VitOptions, sizes: &'static [Size]) -> Kind {
    Kind {
        family: "vit",
        tag,
        own: None,
        options,
        qkv_bias: true,
        sizes,
    }
}

const CLIPS: &[Size] = &[
    ("base", 768, 12, 12, 4.0, 16, &[224, 384]),
    ("large", 1024, 24, 16, 4.0, 14, &[224, 336]),
];
const QUICK_CLIPS: &[Size] = &[
    ("base", 768, 12, 12, 4.0, 16, &[224]),
    ("large", 1024, 24, 16, 4.0, 14, &[224, 336]),
];
const SIGLIPS: &[Size] = &[
    ("base", 768, 12, 12, 4.0, 16, &[224, 256, 384, 512]),
    ("so400m", 1152, 27, 16, 3.7362, 14, &[224, 378]),
];
const TANH_SIGLIPS: &[Size] = &[("so400m", 1152, 27, 16, 3.7362, 16, &[256, 384, 512])];
const DINO_V2S: &[Size] = &[
    ("small", 384, 12, 6, 4.0, 14, &[518]),
    ("base", 768, 12, 12, 4.0, 14, &[518]),
    ("large", 1024, 24, 16, 4.0, 14, &[518]),
];
const GIANT: &[Size] = &[("giant", 1536, 40, 24, 2.0 * 2.66667, 14, &[518])];
const DINO_V3S: &[Size] = &[
    ("small", 384, 12, 6, 4.0, 16, &[256]),
    ("base", 768, 12, 12, 4.0, 16, &[256]),
    ("large", 1024, 24, 16, 4.0, 16, &[256]),
];
const DINO_V3_PLUS: &[Size] = &[("small_plus", 384, 12, 6, 4.0, 16, &[256])];
const BASELINES: &[Size] = &[
    ("little", 320, 14, 5, 5.6, 16, &[256]),
    ("medium", 512, 12, 8, 4.0, 16, &[256]),
];

/// The options of a kind with another activation in its MLPs.
const fn with(options: VitOptions, activation: Activation) -> VitOptions {
    VitOptions {
        activation,
        ..options
    }
}

/// The kinds, in the order of `kvt models list`.
static KINDS: &[Kind] = &[
    Kind {
        family: "deit3",
        ..kind(
            "",
            VitOptions {
                embedding: Embedding::Patches,
                scale: Some(ScaleKind::Module(1e-6)),
                ..DEIT
            },
            &[
                ("small", 384, 12, 6, 4.0, 16, &[224, 384]),
                ("base", 768, 12, 12, 4.0, 16, &[224, 384]),
                ("large", 1024, 24, 16, 4.0, 16, &[224, 384]),
            ],
        )
    },
    unsized_kind("_dinov2", 518, DINO_V2, DINO_V2S),
    unsized_kind("_dinov2", 518, with(DINO_V2, SwiGluPacked), GIANT),
    unsized_kind("_reg4_dinov2", 518, DINO_V2_REG, DINO_V2S),
    unsized_kind("_reg4_dinov2", 518, with(DINO_V2_REG, SwiGluPacked), GIANT),
    Kind {
        qkv_bias: false,
        ..unsized_kind("_dinov3", 256, DINO_V3, DINO_V3S)
    },
    Kind {
        qkv_bias: false,
        ..unsized_kind("_dinov3", 256, with(DINO_V3, SwiGlu), DINO_V3_PLUS)
    },
    unsized_kind("_dinov3_qkvb", 256, DINO_V3, DINO_V3S),
    unsized_kind("_dinov3_qkvb", 256, with(DINO_V3, SwiGlu), DINO_V3_PLUS),
    kind("_clip", CLIP, CLIPS),
    kind("_clip_quickgelu", with(CLIP, QuickGelu), QUICK_CLIPS),
    kind("_siglip", SIGLIP, SIGLIPS),
    kind("_siglip", with(SIGLIP, GeluTanh), TANH_SIGLIPS),
    kind("_siglip_gap", SIGLIP_GAP, SIGLIPS),
    kind("_siglip_gap", with(SIGLIP_GAP, GeluTanh), TANH_SIGLIPS),
    kind("_reg1_gap", BASELINE, BASELINES),
    kind(
        "_reg4_gap",
        VitOptions {
            reg_tokens: 4,
            ..BASELINE
        },
        BASELINES,
    ),
];

/// All of them.
pub(super) fn named() -> impl Iterator<Item = VitConfig> {
    KINDS.iter().flat_map(|kind| {
        let sizes = kind.sizes.iter();
        sizes.flat_map(
            move |&(_, embed_dim, depth, num_heads, mlp_ratio, patch_size, sides)| {
                sides.iter().map(move |&side| {
                    let mut config =
                        VitConfig::deit(side, patch_size, [embed_dim, depth, num_heads]);
                    config.common.mlp_ratio = mlp_ratio;
                    config.common.qkv_bias = kind.qkv_bias;
                    config.options = kind.options;
                    config
                })
            },
        )
    })
}

/// timm's name of a model that is more than a DeiT; channels x depth replace a size that timm has no name for. What the classifier
/// reads may be changed without another name.
pub(super) fn name(config: &VitConfig) -> String {
    let VitConfig {
        patch_size,
        embed_dim,
        depth,
        ..
    } = *config;
    let pooled = |options: VitOptions| VitOptions {
        pool: config.options.pool,
        ..options
    };
    let alike = KINDS
        .iter()
        .filter(|kind| pooled(kind.options) == config.options);
    let kind = alike.max_by_key(|kind| {
        let pools = kind.options.pool == config.options.pool;
        let has_size = size_of(kind, config).is_some();
        (has_size, pools, kind.qkv_bias == config.common.qkv_bias)
    });
    let size = kind.and_then(|kind| size_of(kind, config));
    let size = size.map_or_else(|| format!("{embed_dim}x{depth}"), str::to_owned);
    let (family, tag) = kind.map_or(("vit", ""), |kind| (kind.family, kind.tag));
    let img_size = config.common.img_size;
    let img = match kind.and_then(|kind| kind.own) {
        Some(own) if img_size.sides() == (own, own) => String::new(),
        _ => format!("_{img_size}"),
    };
    format!("{family}_{size}_patch{patch_size}{tag}{img}")
}

/// The name of a size of a kind.
fn size_of(kind: &Kind, config: &VitConfig) -> Option<&'static str> {
    let own = (
        config.embed_dim,
        config.depth,
        config.num_heads,
        config.patch_size,
    );
    let mut sizes = kind.sizes.iter();
    let found =
        sizes.find(|&&(_, dim, depth, heads, _, patch, _)| (dim, depth, heads, patch) == own);
    found.map(|size| size.0)
}
