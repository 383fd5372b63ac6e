//! Logits and input gradients against timm.
//!
//! The files are written by `scripts/reference/deit.py`: weights under timm's names behind
//! `weights.`, `images`, `logits`, a `probe` and the gradient of `sum(logits * probe)` with respect
//! to the images; the configuration is in the metadata.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Attention, Implementation, Key, Neighbors, Phase};
use kvt_models::ModelConfig;
use kvt_models::deit::DeitConfig;
use kvt_models::weights::{LoadOptions, Outcome, StateDict, read};
use safetensors::SafeTensors;
use serde_json::Value;

/// Largest difference, relative to the largest magnitude.
const TOLERANCE: f64 = 1e-4;

#[test]
fn logits_and_input_gradients_are_timms() {
    let cases = cases();
    assert!(
        !cases.is_empty(),
        "no `deit_*.safetensors` in {}",
        folder().display()
    );
    for path in cases {
        let config = config(&path);
        let implementations = [
            Implementation::Auto,
            Implementation::Masked,
            Implementation::Gathered,
        ];
        for implementation in implementations {
            let attention = Attention {
                implementation,
                ..config.attention
            };
            let config = DeitConfig {
                attention,
                ..config.clone()
            };
            compare(&path, &config);
        }
    }
}

#[test]
fn a_nested_pytorch_checkpoint_gives_the_same_weights() {
    let golden = read(&folder().join("deit_nested.safetensors")).unwrap();
    let checkpoint = read(&folder().join("deit_nested.pth")).unwrap();
    assert_eq!(checkpoint, weights(&golden));
}

fn compare(path: &Path, config: &DeitConfig) {
    let case = format!("{} {:?}", path.display(), config.attention.implementation);
    let tensors = read(path).unwrap();
    let device = Device::flex().autodiff();
    let model = ModelConfig::Deit(config.clone());
    let model = model.init(&device, Key::new(0)).unwrap();
    let (model, report) = model
        .load(&weights(&tensors), LoadOptions::default())
        .unwrap();
    assert_eq!(
        report.names(Outcome::Matched).count(),
        report.rows.len(),
        "{case}: {report}"
    );

    let tensor = |name: &str| tensors.get(name).unwrap().clone();
    let images = Tensor::<4>::from_data(tensor("images"), &device).require_grad();
    model.check_input(images.dims()).unwrap();
    let logits = model.forward(images.clone(), Phase::Eval);
    assert_close(
        &format!("{case}: logits"),
        logits.to_data(),
        tensor("logits"),
    );

    // Without drop path, training gives the same logits.
    let train = model.forward(images.clone(), Phase::Train(Key::new(1)));
    assert_close(
        &format!("{case}: training logits"),
        train.into_data(),
        tensor("logits"),
    );

    let probe = Tensor::<2>::from_data(tensor("probe"), &device);
    let grads = (logits * probe).sum().backward();
    let grad = images.grad(&grads).unwrap().into_data();
    assert_close(&format!("{case}: gradient"), grad, tensor("grad.images"));
}

fn weights(tensors: &StateDict) -> StateDict {
    tensors
        .iter()
        .filter_map(|(name, data)| Some((name.strip_prefix("weights.")?.to_owned(), data.clone())))
        .collect()
}

fn assert_close(what: &str, actual: TensorData, expected: TensorData) {
    assert_eq!(actual.shape(), expected.shape(), "{what}");
    let actual: Vec<f32> = actual.try_into_vec().unwrap();
    let expected: Vec<f32> = expected.try_into_vec().unwrap();
    let largest = expected
        .iter()
        .fold(0.0f32, |max, value| max.max(value.abs()));
    assert!(largest > 0.0, "{what} is all zeros");
    let difference = actual
        .iter()
        .zip(&expected)
        .map(|(a, e)| f64::from((a - e).abs()))
        .fold(0.0, f64::max);
    let relative = difference / f64::from(largest);
    assert!(
        relative < TOLERANCE,
        "{what}: relative difference {relative:.2e}"
    );
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn cases() -> Vec<PathBuf> {
    let Ok(entries) = fs_err::read_dir(folder()) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("deit_") && name.ends_with(".safetensors")
        })
        .collect()
}

fn config(path: &Path) -> DeitConfig {
    let bytes = fs_err::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let config = &header.metadata().as_ref().unwrap()["config"];
    let config: Value = serde_json::from_str(config).unwrap();
    let size = |name: &str| config[name].as_u64().unwrap() as usize;
    let flag = |name: &str| config[name].as_bool().unwrap();
    DeitConfig {
        img_size: size("img_size"),
        patch_size: size("patch_size"),
        in_chans: size("in_chans"),
        num_classes: size("num_classes"),
        embed_dim: size("embed_dim"),
        depth: size("depth"),
        num_heads: size("num_heads"),
        mlp_ratio: config["mlp_ratio"].as_f64().unwrap(),
        qkv_bias: flag("qkv_bias"),
        distilled: flag("distilled"),
        drop_path: 0.0,
        attn_drop: 0.0,
        attention: attention(&config["attention"]),
    }
}

fn attention(config: &Value) -> Attention {
    let neighbors = &config["neighbors"];
    let neighbors = match config["kind"].as_str().unwrap() {
        "dense" => Neighbors::All,
        _ => match neighbors.as_u64() {
            Some(k) => Neighbors::Count(NonZeroUsize::new(k as usize).unwrap()),
            None => Neighbors::Fraction(neighbors.as_f64().unwrap()),
        },
    };
    Attention {
        neighbors,
        temperature: config["temperature"].as_f64().unwrap_or(1.0),
        ..Attention::dense()
    }
}
