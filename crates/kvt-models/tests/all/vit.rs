//! Vision transformers that are more than a DeiT, against timm's: features and images of another shape, named sizes, and which
//! weights are whose. Logits and gradients are in `golden.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, Implementation};
use kvt_models::layers::Activation;
use kvt_models::vit::Pool;
use kvt_models::weights::{LoadOptions, Outcome, StateDict, WeightsError, identify, recognise};
use kvt_models::{Ask, Backbone, Model, ModelConfig, ModelError, ModelOverrides, Network};
use kvt_ops::{Key, Phase};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::{config, file_name, files, folder, metadata};
use crate::golden::named_after;
use crate::seeded;

/// Largest difference from timm, which computes in f64, relative to the largest magnitude.
const TOLERANCE: f32 = 1e-5;
/// The same on a GPU, as in `golden.rs`.
const TOLERANCE_ON_GPU: f32 = 1e-4;

/// The fewest files that have every option of all files: patches without a class token, registers, layer scale and `fc_norm`; a norm
/// before the blocks and quick GELU; an attention pool and GELU by a hyperbolic tangent; rotary positions, layer scale as in `eva.py`, SwiGLU and keys alone without a
/// bias; norms of queries and keys, and no biases; patches of 14; packed SwiGLU; images that are not square.
const EVERY_OPTION: [&str; 8] = [
    "vit_baseline",
    "vit_clip",
    "vit_siglip_tanh",
    "vit_dinov3_plus",
    "vit_rotary_qk_norm",
    "vit_dinov2_patch14",
    "vit_dinov2_packed",
    "vit_rectangle.",
];

/// Compares features, vector and logits with timm's, of the images under each prefix.
fn compare(path: &Path, device: &Device, prefixes: &[&str], tolerance: f32) {
    let case = file_name(path);
    let tensors = seeded::golden(path);
    let model = config(path, Implementation::Auto);
    let model = model.init(device, Key::new(0)).unwrap();
    let weights = named_after(&tensors, "weights.");
    let (model, _) = model.load(&weights, LoadOptions::default()).unwrap();
    assert_eq!(
        model.config().summary().params,
        model.num_params(),
        "{case}"
    );

    for prefix in prefixes {
        let expected = |name: &str| tensors.get(&format!("{prefix}{name}"));
        let images = expected("images").unwrap().clone();
        let images = Tensor::<4>::from_data(images, device);
        let [_, _, height, width] = images.dims();
        model.check_size([height, width]).unwrap();
        let features = model
            .backbone
            .features(images.clone(), &Ask::default(), Phase::Eval);
        let compare = |name: &str, found: &TensorData| {
            if let Some(expected) = expected(name) {
                let what = format!("{case}: {prefix}{name}");
                assert_close(&what, found, expected, tolerance);
            }
        };
        compare("features", &features.tokens.to_data());
        compare("vector", &features.pooled().into_data());
        compare("logits", &model.forward(images, Phase::Eval).into_data());
    }
}

fn assert_close(what: &str, found: &TensorData, expected: &TensorData, tolerance: f32) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let [found, expected] = [found, expected].map(|data| data.try_to_vec::<f32>().unwrap());
    let largest = expected.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    let differences = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    let worst = differences.fold(0.0f32, |max, x| if x > max || x.is_nan() { x } else { max });
    assert!(worst <= tolerance * largest, "{what}: {worst} of {largest}");
}

/// Tokens, vector and logits, also of images that are larger along one side and smaller along the other.
#[test]
fn features_are_timms_at_any_size() {
    let cases = files("vit_");
    assert!(cases.len() >= 16);
    for path in cases {
        compare(&path, &Device::flex(), &["", "other."], TOLERANCE);
    }
}

/// A forward pass for every option, also on a software driver; gradients and the other files are in `golden.rs`.
#[test]
fn every_option_is_the_same_on_a_gpu() {
    let Some((_, device)) = kvt_testing::devices::gpu() else {
        return;
    };
    for path in EVERY_OPTION.iter().flat_map(|case| files(case)) {
        compare(&path, &device, &[""], TOLERANCE_ON_GPU);
    }
}

/// Whatever a file has beside its attention, one of those that run on a GPU has.
#[test]
fn no_option_lacks_a_case_on_a_gpu() {
    let options = |path: PathBuf| {
        let Value::Object(mut config) = metadata(&path) else {
            unreachable!("{}", path.display())
        };
        // Every operation, and each kind of attention, has tests of its own.
        config.remove("attention");
        config
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}"))
    };
    let all: BTreeSet<String> = files("vit_").into_iter().flat_map(options).collect();
    let on_gpu = EVERY_OPTION.iter().flat_map(|case| files(case));
    let on_gpu: BTreeSet<String> = on_gpu.flat_map(options).collect();
    assert_eq!(all, on_gpu);
}

/// What timm's named models have, written by `scripts/reference/vit.py`.
#[derive(Deserialize)]
struct Named {
    params: u64,
    depth: usize,
    /// What weights do not show: the class of the activation, the epsilon of norms, and timm's name of the pool.
    activation: String,
    epsilon: f64,
    pool: String,
    /// The shapes of the weights outside the blocks, and of the first block.
    weights: BTreeMap<String, String>,
}

fn named() -> BTreeMap<String, Named> {
    let file = fs_err::read_to_string(folder().join("vit_named.json")).unwrap();
    let mut file: Value = serde_json::from_str(&file).unwrap();
    serde_json::from_value(file["models"].take()).unwrap()
}

#[test]
fn named_models_are_timms() {
    let golden = named();
    let is_ours = |name: &String| name.starts_with("vit_") || name.starts_with("deit3_");
    let ours: BTreeSet<String> = kvt_models::names().into_iter().filter(is_ours).collect();
    let theirs: BTreeSet<String> = golden.keys().cloned().collect();
    assert_eq!(ours, theirs);
    for (name, golden) in golden {
        let named = ModelConfig::by_name(&name).unwrap();
        assert_eq!(named.name(), name);
        assert_eq!(named.summary().params as u64, golden.params, "{name}");
        assert_eq!(
            silent(&named),
            (golden.activation, golden.epsilon, golden.pool),
            "{name}"
        );
        let model = shallow(&name, ModelOverrides::default());
        let found: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
        let expected: BTreeSet<String> = golden.weights.into_keys().collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// What weights do not show, in timm's words.
fn silent(config: &ModelConfig) -> (String, f64, String) {
    let ModelConfig::Vit(config) = config else {
        unreachable!("{}", config.name())
    };
    let activation = match config.options.activation {
        Activation::Gelu => "GELU",
        Activation::QuickGelu => "QuickGELU",
        Activation::GeluTanh => "GELUTanh",
        Activation::SwiGlu | Activation::SwiGluPacked => "SiLU",
    };
    let pool = match config.options.pool {
        Pool::Token => "token",
        Pool::Mean => "avg",
        Pool::Attention => "map",
    };
    (
        activation.to_owned(),
        config.options.epsilon,
        pool.to_owned(),
    )
}

/// A named model with one narrow block, and images of 16 patches.
fn shallow(name: &str, more: ModelOverrides) -> Model {
    let config = ModelConfig::by_name(name).unwrap();
    let patch = if name.contains("patch14") { 14 } else { 16 };
    let overrides = ModelOverrides {
        img_size: Some((4 * patch).into()),
        embed_dim: Some(24.into()),
        depth: Some(1.into()),
        num_heads: Some(2.into()),
        num_classes: Some(3),
        ..more
    };
    let config = config.with(&overrides).unwrap();
    config.init(&Device::flex(), Key::new(1)).unwrap()
}

/// The weights of each small one, in timm's shapes, are those of its name and of no other.
#[test]
fn weights_tell_their_model() {
    let mut small = named();
    small.retain(|_, golden| golden.params < 30_000_000);
    assert!(small.len() >= 10);
    for (name, golden) in small {
        let of_block = |(name, shape): (String, String)| {
            let shape: Vec<usize> = shape.split(' ').map(|side| side.parse().unwrap()).collect();
            let copies = match name.strip_prefix("blocks.0.") {
                Some(rest) => (0..golden.depth)
                    .map(|i| format!("blocks.{i}.{rest}"))
                    .collect(),
                None => vec![name],
            };
            let zeros = move |name| (name, TensorData::zeros::<f32, _>(shape.clone()));
            copies.into_iter().map(zeros)
        };
        let weights: StateDict = golden.weights.into_iter().flat_map(of_block).collect();
        assert_eq!(recognise(&weights).unwrap().family, "ViT", "{name}");
        assert_eq!(identify(&weights).unwrap(), [name]);
    }
}

/// A model without an option does not take the weights of one with it, although it would find all of its own; the error names one that
/// does.
#[test]
fn weights_of_another_option_are_refused() {
    let pool = "set `model.pool = \"attention\"`, or start with a new head";
    for (model, weights, signature, hint) in [
        (
            "deit_tiny_patch16_224",
            "deit3_small_patch16_224",
            "blocks.0.ls1.gamma",
            "`deit3_small_patch16_224` is with it",
        ),
        (
            "deit_tiny_patch16_224",
            "vit_base_patch16_clip_224",
            "norm_pre.weight",
            "`vit_base_patch16_clip_224` is with it",
        ),
        (
            "vit_small_patch16_dinov3",
            "vit_small_patch16_dinov3_qkvb",
            "blocks.0.attn.q_bias",
            "`vit_small_patch16_dinov3_qkvb` is with it",
        ),
        (
            "vit_base_patch16_siglip_gap_224",
            "vit_base_patch16_siglip_224",
            "attn_pool.latent",
            pool,
        ),
    ] {
        let weights = StateDict::from_model(&shallow(weights, ModelOverrides::default())).unwrap();
        let model = shallow(model, ModelOverrides::default());
        let error = model.load(&weights, LoadOptions::default()).unwrap_err();
        let found =
            matches!(&error, WeightsError::Variant { signature: found, .. } if *found == signature);
        assert!(found && error.to_string().contains(hint), "{error}");
    }
    let mut weights = StateDict::from_model(&shallow(
        "deit3_small_patch16_224",
        ModelOverrides::default(),
    ))
    .unwrap();
    weights.insert("reg_token", TensorData::zeros::<f32, _>([1, 4, 24]));
    let model = shallow("deit3_small_patch16_224", ModelOverrides::default());
    let error = model.load(&weights, LoadOptions::default()).unwrap_err();
    let hint = "`vit_small_patch14_reg4_dinov2` is with it";
    assert!(error.to_string().contains(hint), "{error}");
}

/// With a new head, which reads the mean of the tokens, SigLIP's pool is left out: the rest is as if the weights had none.
#[test]
fn an_attention_pool_may_be_left_out() {
    let name = "vit_base_patch16_siglip_224";
    let weights = StateDict::from_model(&shallow(name, ModelOverrides::default())).unwrap();
    let is_of_pool = |name: &str| name.starts_with("attn_pool.");
    let without = weights.clone().into_iter();
    let without: StateDict = without.filter(|(name, _)| !is_of_pool(name)).collect();
    let mean = || ModelOverrides {
        pool: Some(Pool::Mean),
        ..ModelOverrides::default()
    };
    let options = LoadOptions {
        new_head: true,
        ..LoadOptions::default()
    };
    let [(model, report), (expected, _)] =
        [&weights, &without].map(|weights| shallow(name, mean()).load(weights, options).unwrap());
    let unused: Vec<&str> = report.names(Outcome::Unused).collect();
    assert!(
        !unused.is_empty() && unused.iter().all(|name| is_of_pool(name)),
        "{unused:?}"
    );
    let images = || Tensor::<4>::ones([1, 3, 64, 64], &Device::flex());
    let logits = |model: &Model| model.forward(images(), Phase::Eval).into_data();
    assert_eq!(logits(&model), logits(&expected));
}

/// What the classifier reads can be changed; a class token that is not there cannot be read.
#[test]
fn the_pool_can_be_chosen() {
    let with = |pool| ModelOverrides {
        pool: Some(pool),
        ..ModelOverrides::default()
    };
    let images = || Tensor::<4>::ones([1, 3, 64, 64], &Device::flex());
    let logits = |pool| {
        let model = shallow("vit_small_patch16_dinov3", with(pool));
        model.forward(images(), Phase::Eval).into_data()
    };
    assert_ne!(logits(Pool::Token), logits(Pool::Mean));
    let named = ModelConfig::by_name("vit_small_patch16_dinov3").unwrap();
    assert_eq!(
        named.with(&with(Pool::Token)).unwrap().name(),
        "vit_small_patch16_dinov3"
    );
    let siglip = ModelConfig::by_name("vit_base_patch16_siglip_224").unwrap();
    let error = siglip.with(&with(Pool::Token)).unwrap_err();
    assert!(matches!(error, ModelError::Pool(_)), "{error}");
}

/// Registers, rotary positions and every kind of attention, with images of another size where the kind takes them.
#[test]
fn every_kind_of_attention_has_rotary_positions() {
    for attention in AttentionConfig::defaults() {
        let kind = attention.kind();
        let config = ModelConfig::by_name("vit_small_patch16_dinov3").unwrap();
        let overrides = ModelOverrides {
            img_size: Some(384.into()),
            embed_dim: Some(24.into()),
            depth: Some(1.into()),
            num_heads: Some(2.into()),
            num_classes: Some(3),
            attention: Some(attention),
            ..ModelOverrides::default()
        };
        let config = config.with(&overrides).unwrap();
        let model = config.init(&Device::flex(), Key::new(1)).unwrap();
        let images = Tensor::<4>::ones([1, 3, 384, 384], &Device::flex());
        let logits: Vec<f32> = model
            .forward(images, Phase::Eval)
            .into_data()
            .try_to_vec()
            .unwrap();
        assert!(logits.iter().all(|x| x.is_finite()), "{kind}: {logits:?}");
        assert_eq!(
            model.config().summary().params,
            model.num_params(),
            "{kind}"
        );
    }
}
