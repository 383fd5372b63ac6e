//! The golden files of `scripts/reference`: one model each, with its configuration in the metadata.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors};
use kvt_models::cvt::CvtConfig;
use kvt_models::layers::{Activation, ScaleKind};
use kvt_models::pit::PitConfig;
use kvt_models::so_vit::SoVitConfig;
use kvt_models::swin::SwinConfig;
use kvt_models::t2t::{T2tConfig, TokensType};
use kvt_models::tnt::TntConfig;
use kvt_models::twins::TwinsConfig;
use kvt_models::visformer::VisformerConfig;
use kvt_models::vit::{Embedding, Pool, VitConfig, VitOptions};
use kvt_models::volo::VoloConfig;
use kvt_models::{CommonConfig, ModelConfig, StagesConfig};
use safetensors::SafeTensors;
use serde_json::Value;

/// The folder of the golden files.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A file without its folder.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The files whose names have this beginning; there are some.
pub(crate) fn files(family: &str) -> Vec<PathBuf> {
    files_in(&folder(), family)
}

/// The same in another folder.
pub(crate) fn files_in(folder: &Path, family: &str) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = file_name(path);
            name.starts_with(family) && name.ends_with(".safetensors")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no `{family}*.safetensors`");
    files
}

/// The metadata `config` of a file.
pub(crate) fn metadata(path: &Path) -> Value {
    let bytes = fs_err::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    serde_json::from_str(&header.metadata().as_ref().unwrap()["config"]).unwrap()
}

/// The model of a file.
pub(crate) fn config(path: &Path, implementation: Implementation) -> ModelConfig {
    let config = Json(metadata(path), implementation);
    let name = file_name(path);
    match name.split('_').next().unwrap() {
        "deit" => deit(&config).into(),
        "swin" => swin(&config).into(),
        "pit" => pit(&config).into(),
        "cvt" => cvt(&config).into(),
        "tnt" => tnt(&config).into(),
        "visformer" => visformer(&config).into(),
        "sovit" => so_vit(&config).into(),
        "twins" => twins(&config).into(),
        "t2t" => t2t(&config).into(),
        "vit" => vit(&config).into(),
        "volo" => volo(&config).into(),
        family => unreachable!("{family}"),
    }
}

/// The arguments of a model in Python, and the implementation of its attention here.
struct Json(Value, Implementation);

fn deit(config: &Json) -> VitConfig {
    VitConfig {
        common: config.common(),
        patch_size: config.size("patch_size"),
        embed_dim: config.size("embed_dim"),
        depth: config.size("depth"),
        num_heads: config.size("num_heads"),
        distilled: config.flag("distilled"),
        options: VitOptions::DEIT,
        attention: config.attention(1)[0].clone(),
    }
}

fn vit(config: &Json) -> VitConfig {
    let activation = match config.word("activation") {
        "gelu" => Activation::Gelu,
        "quick_gelu" => Activation::QuickGelu,
        "gelu_tanh" => Activation::GeluTanh,
        "swi_glu" => Activation::SwiGlu,
        _ => Activation::SwiGluPacked,
    };
    let options = VitOptions {
        class_token: config.flag("class_token"),
        reg_tokens: config.size("reg_tokens"),
        embedding: match config.word("embedding") {
            "all" => Embedding::All,
            "patches" => Embedding::Patches,
            _ => Embedding::Rotary,
        },
        norm_pre: config.flag("norm_pre"),
        activation,
        scale: match config.0["scale"].as_str() {
            None => None,
            Some("module") => Some(ScaleKind::Module(1.0)),
            Some(_) => Some(ScaleKind::Plain(1.0)),
        },
        unbiased_keys: config.flag("unbiased_keys"),
        qk_norm: config.flag("qk_norm"),
        pool: match config.word("pool") {
            "token" => Pool::Token,
            "mean" => Pool::Mean,
            _ => Pool::Attention,
        },
        fc_norm: config.flag("fc_norm"),
        epsilon: config.number("epsilon"),
    };
    VitConfig {
        common: config.common(),
        patch_size: config.size("patch_size"),
        embed_dim: config.size("embed_dim"),
        depth: config.size("depth"),
        num_heads: config.size("num_heads"),
        distilled: false,
        options,
        attention: config.attention(1)[0].clone(),
    }
}

fn swin(config: &Json) -> SwinConfig {
    let depth = config.sizes("depths");
    SwinConfig {
        common: config.common(),
        patch_size: config.size("patch_size"),
        embed_dim: config.size("embed_dim"),
        window_size: config.size("window_size"),
        stages: StagesConfig {
            attention: config.attention(depth.len()),
            depth,
            num_heads: config.sizes("num_heads"),
        },
    }
}

fn pit(config: &Json) -> PitConfig {
    let depth = config.sizes("depth");
    let num_heads = config.sizes("heads");
    let per_head = config.sizes("base_dims");
    PitConfig {
        common: config.common(),
        patch_size: config.size("patch_size"),
        patch_stride: config.size("stride"),
        embed_dim: per_head
            .iter()
            .zip(&num_heads)
            .map(|(dim, heads)| dim * heads)
            .collect(),
        distilled: config.flag("distilled"),
        stages: StagesConfig {
            attention: config.attention(depth.len()),
            depth,
            num_heads,
        },
    }
}

fn cvt(config: &Json) -> CvtConfig {
    let depth = config.sizes("depth");
    CvtConfig {
        common: config.common(),
        // The sizes of the later stages are the same in all models.
        patch_size: config.sizes("patch_size")[0],
        patch_stride: config.sizes("patch_stride")[0],
        embed_dim: config.sizes("dim_embed"),
        kv_stride: config.sizes("stride_kv")[0],
        stages: StagesConfig {
            attention: config.attention(depth.len()),
            depth,
            num_heads: config.sizes("num_heads"),
        },
    }
}

fn tnt(config: &Json) -> TntConfig {
    let [inner, outer] = config.attention(2).try_into().unwrap();
    TntConfig {
        common: config.common(),
        patch_size: config.size("patch_size"),
        embed_dim: config.size("embed_dim"),
        depth: config.size("depth"),
        num_heads: config.size("num_heads_outer"),
        inner_dim: config.size("inner_dim"),
        inner_num_heads: config.size("num_heads_inner"),
        inner_stride: config.size("first_stride"),
        legacy: config.flag("legacy"),
        attention: [inner, outer],
    }
}

fn visformer(config: &Json) -> VisformerConfig {
    let (patch, dim, heads) = (
        config.size("patch_size"),
        config.size("embed_dim"),
        config.size("num_heads"),
    );
    // Without a stem, its stride is part of the first patch embedding.
    let (init_channels, strides) = match config.0["init_channels"].as_u64() {
        Some(channels) => (channels as usize, [2, patch / 4, patch / 8, patch / 8]),
        None => (1, [0, patch / 2, patch / 8, patch / 8]),
    };
    VisformerConfig {
        common: config.common(),
        init_channels,
        strides,
        embed_dim: [dim / 2, dim, 2 * dim],
        depth: config.sizes("depth").try_into().unwrap(),
        num_heads: [heads; 2],
        attention: config.attention(2).try_into().unwrap(),
    }
}

fn so_vit(config: &Json) -> SoVitConfig {
    SoVitConfig {
        common: config.common(),
        strides: config.sizes("strides").try_into().unwrap(),
        embed_dim: config.size("embed_dim"),
        depth: config.size("depth"),
        num_heads: config.size("num_heads"),
        cov_dims: config.sizes("cov_dims").try_into().unwrap(),
        head_drop: 0.0,
        attention: config.attention(1)[0].clone(),
    }
}

fn twins(config: &Json) -> TwinsConfig {
    let depth = config.sizes("depths");
    TwinsConfig {
        common: config.common(),
        strides: config.sizes("strides"),
        embed_dim: config.sizes("embed_dims"),
        window_size: config.sizes("wss"),
        sr_ratio: config.sizes("sr_ratios"),
        stages: StagesConfig {
            attention: config.attention(depth.len()),
            depth,
            num_heads: config.sizes("num_heads"),
        },
    }
}

fn t2t(config: &Json) -> T2tConfig {
    let (tokens_type, attention) = match config.0["tokens_type"].as_str().unwrap() {
        "transformer" => {
            let [first, second, blocks] = config.attention(3).try_into().unwrap();
            let attention = [first, second];
            (TokensType::Transformer { attention }, blocks)
        }
        _ => (
            TokensType::Performer { drop: 0.0 },
            config.attention(1)[0].clone(),
        ),
    };
    T2tConfig {
        common: config.common(),
        tokens_type,
        strides: config.sizes("strides").try_into().unwrap(),
        token_dim: config.size("token_dim"),
        embed_dim: config.size("embed_dim"),
        depth: config.size("depth"),
        num_heads: config.size("num_heads"),
        attention,
    }
}

fn volo(config: &Json) -> VoloConfig {
    let depth = config.sizes("layers");
    VoloConfig {
        common: config.common(),
        strides: config.sizes("strides").try_into().unwrap(),
        stem_dim: config.size("stem_hidden_dim"),
        embed_dim: config.sizes("embed_dims"),
        num_heads: config.sizes("num_heads"),
        attention: config.attention(depth.len() - 1),
        class_attention: match &config.0["attention"]["class_neighbors"] {
            Value::Null => AttentionConfig::dense(),
            neighbors => config.knn(neighbors),
        },
        depth,
    }
}

impl Json {
    fn common(&self) -> CommonConfig {
        CommonConfig {
            img_size: serde_json::from_value(self.0["img_size"].clone()).unwrap(),
            in_chans: self.size("in_chans"),
            num_classes: self.size("num_classes"),
            // CvT's is a list with the same number for all stages.
            mlp_ratio: match self.0["mlp_ratio"].as_array() {
                Some(list) => list[0].as_f64().unwrap(),
                None => self.number("mlp_ratio"),
            },
            // PiT and CvT always have a bias, Visformer has none and ignores the setting.
            qkv_bias: self.0["qkv_bias"].as_bool().unwrap_or(true),
            drop_path: 0.0,
            attn_drop: 0.0,
            dense: None,
        }
    }

    fn size(&self, name: &str) -> usize {
        self.0[name].as_u64().unwrap() as usize
    }

    fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap()
    }

    fn word(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap()
    }

    fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap()
    }

    fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().unwrap()
    }

    fn sizes(&self, name: &str) -> Vec<usize> {
        let sizes = self.list(name).iter();
        sizes.map(|size| size.as_u64().unwrap() as usize).collect()
    }

    /// The attention of each stage: each has its own neighbours, or all have the same.
    fn attention(&self, stages: usize) -> Vec<AttentionConfig> {
        let neighbors = &self.0["attention"]["neighbors"];
        match neighbors.as_array() {
            Some(list) => list.iter().map(|neighbors| self.knn(neighbors)).collect(),
            None => vec![self.knn(neighbors); stages],
        }
    }

    /// An attention with the settings that all stages share.
    fn knn(&self, neighbors: &Value) -> AttentionConfig {
        AttentionConfig::Knn(KnnConfig {
            temperature: self.0["attention"]["temperature"].as_f64().unwrap(),
            implementation: self.1,
            ..KnnConfig::new(parse(neighbors))
        })
    }
}

/// A count, a share of the keys, or all of them.
fn parse(neighbors: &Value) -> Neighbors {
    if neighbors.is_null() {
        return Neighbors::All;
    }
    match neighbors.as_u64() {
        Some(k) => Neighbors::Count(NonZeroUsize::new(k as usize).unwrap()),
        None => Neighbors::Fraction(neighbors.as_f64().unwrap()),
    }
}
