#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module as _, ModuleMapper};
use burn::tensor::{Device, Gradients, TensorData};
use kvt_attention::AttentionConfig;
use kvt_ops::Key;

use super::*;
use crate::family::common::CommonConfig;
use crate::family::families::{AnyBackbone, ModelConfig};
use crate::family::stages::StagesConfig;
use crate::model::Model;
use crate::network::Network;
use crate::testing::{count, images, logits};
use crate::weights::{self, LoadOptions, Outcome, StateDict};

fn small() -> CvtConfig {
    CvtConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            ..CommonConfig::imagenet(18)
        },
        patch_size: 7,
        patch_stride: 2,
        embed_dim: vec![6, 8, 12],
        kv_stride: 2,
        stages: StagesConfig {
            depth: vec![1, 2, 2],
            num_heads: vec![1, 2, 3],
            attention: vec![AttentionConfig::dense(); 3],
        },
    }
}

fn build(config: CvtConfig, seed: u64, device: &Device) -> Model {
    let config = ModelConfig::Cvt(config);
    config.init(device, Key::new(seed)).unwrap()
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for qkv_bias in [false, true] {
        let config = CvtConfig {
            common: CommonConfig {
                qkv_bias,
                ..small().common
            },
            ..small()
        };
        let model = build(config.clone(), 1, &Device::flex());
        let summary = config.summary();
        assert_eq!(summary.params, count(&model, &[""]));
        for stage in summary.stages {
            let name = format!("{}.", stage.name);
            assert_eq!(stage.params, count(&model, &[&name]));
        }
    }
}

#[test]
fn parameters_have_the_originals_names_and_layout() {
    let model = build(small(), 1, &Device::flex());
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected: BTreeSet<String> = ["stage2.cls_token".to_owned()].into();
    let mut statistics = BTreeSet::new();
    let mut layer = |name: &str| {
        expected.insert(format!("{name}.weight"));
        expected.insert(format!("{name}.bias"));
    };
    layer("norm");
    layer("head");
    let mut convolutions = Vec::new();
    for (stage, blocks) in [1, 2, 2].into_iter().enumerate() {
        layer(&format!("stage{stage}.patch_embed.proj"));
        layer(&format!("stage{stage}.patch_embed.norm"));
        for block in 0..blocks {
            let block = format!("stage{stage}.blocks.{block}");
            for name in ["norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"] {
                layer(&format!("{block}.{name}"));
            }
            for which in ["q", "k", "v"] {
                layer(&format!("{block}.attn.proj_{which}"));
                layer(&format!("{block}.attn.conv_proj_{which}.bn"));
                convolutions.push(format!("{block}.attn.conv_proj_{which}.conv.weight"));
                for statistic in ["running_mean", "running_var"] {
                    statistics.insert(format!("{block}.attn.conv_proj_{which}.bn.{statistic}"));
                }
            }
        }
    }
    expected.extend(convolutions);
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    let saved: BTreeSet<String> = weights.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(saved, expected.union(&statistics).cloned().collect());
    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("stage0.patch_embed.proj.weight"), [6, 2, 7, 7]);
    assert_eq!(shape("stage1.patch_embed.proj.weight"), [8, 6, 3, 3]);
    assert_eq!(
        shape("stage1.blocks.1.attn.conv_proj_k.conv.weight"),
        [8, 1, 3, 3]
    );
    assert_eq!(shape("stage2.blocks.0.mlp.fc1.weight"), [30, 12]);
    assert_eq!(shape("stage2.cls_token"), [1, 1, 12]);
}

#[test]
fn what_the_original_leaves_out_does_not_decay() {
    let model = build(small(), 1, &Device::flex());
    let parameters = model.parameters().into_iter();
    let (decaying, others): (Vec<_>, Vec<_>) = parameters.partition(|p| model.decays(p));
    let rank = |name: &str| others.iter().find(|p| p.name == name).unwrap().shape.len();
    assert_eq!(rank("stage2.cls_token"), 3);
    assert!(
        others
            .iter()
            .all(|p| p.shape.len() == 1 || p.name == "stage2.cls_token")
    );
    assert!(decaying.iter().all(|p| p.name.ends_with(".weight")));
    assert!(decaying.iter().any(|p| p.name.ends_with("_q.conv.weight")));
}

#[test]
fn the_heads_bias_starts_as_pytorch_makes_it() {
    let weights = StateDict::from_model(&build(small(), 1, &Device::flex())).unwrap();
    let values = |name: &str| weights.get(name).unwrap().try_to_vec::<f32>().unwrap();
    let bias = values("head.bias");
    assert!(
        bias.iter()
            .all(|b| b.abs() <= 12f32.sqrt().recip() && *b != 0.0)
    );
    assert!(values("head.weight").iter().all(|w| w.abs() < 0.12));
    assert!(
        values("stage1.blocks.0.attn.proj_q.bias")
            .iter()
            .all(|b| *b == 0.0)
    );
    assert!(
        values("stage1.blocks.0.attn.conv_proj_q.bn.running_var")
            .iter()
            .all(|v| *v == 1.0)
    );
}

#[test]
fn drop_path_is_for_training_and_the_last_stage() {
    let plain = build(small(), 1, &Device::flex());
    let dropping = CvtConfig {
        common: CommonConfig {
            drop_path: 0.9,
            ..small().common
        },
        ..small()
    };
    let dropping = build(dropping, 1, &Device::flex());
    let AnyBackbone::Cvt(cvt) = &dropping.backbone else {
        unreachable!()
    };
    let blocks = cvt.stages.iter().flat_map(|stage| &stage.blocks);
    let rates: Vec<f64> = blocks.map(|block| block.drop_path).collect();
    assert_eq!(rates, [0.0, 0.0, 0.0, 0.0, 0.9]);

    let train = |seed| Phase::Train(Key::new(seed));
    assert_eq!(logits(&dropping, Phase::Eval), logits(&plain, Phase::Eval));
    assert_ne!(logits(&dropping, train(1)), logits(&plain, train(1)));
    assert_eq!(logits(&dropping, train(1)), logits(&dropping, train(1)));
    assert_ne!(logits(&dropping, train(1)), logits(&dropping, train(2)));
}

/// A step against the gradient.
struct Descend<'a>(&'a mut Gradients);

impl ModuleMapper for Descend<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match param.val().grad_remove(self.0) {
            Some(gradient) => param.map(|weight| {
                let stepped = weight.inner() - gradient * 0.1;
                stepped.autodiff().set_require_grad(true)
            }),
            None => param,
        }
    }
}

/// Weights and statistics by name.
fn state(model: &Model) -> BTreeMap<String, Vec<f32>> {
    let state = StateDict::from_model(model).unwrap().into_iter();
    state
        .map(|(name, data)| (name, data.try_to_vec().unwrap()))
        .collect()
}

#[test]
fn running_statistics_outlive_training_saving_and_loading() {
    let device = Device::flex().autodiff();
    let mut model = build(small(), 1, &device);
    let initial = state(&model);
    for step in 0..2 {
        let logits = model.forward(images(3, 18, &device), Phase::Train(Key::new(step)));
        let mut gradients = logits.powi_scalar(2).sum().backward();
        model = model.map(&mut Descend(&mut gradients));
    }
    let trained = state(&model);
    for (name, values) in &initial {
        // The gradients of queries and keys are small as long as all keys are similar.
        if name.contains(".running_") || name.ends_with("_v.conv.weight") {
            assert_ne!(&trained[name], values, "{name}");
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.safetensors");
    let saved = StateDict::from_model(&model).unwrap();
    weights::write(&file, &saved, &BTreeMap::new()).unwrap();
    let read = weights::read(&file).unwrap();
    assert_eq!(read, saved);
    let fresh = build(small(), 2, &Device::flex());
    let (fresh, report) = fresh.load(&read, LoadOptions::default()).unwrap();
    assert_eq!(report.names(Outcome::Matched).count(), report.rows.len());
    assert_eq!(state(&fresh), trained);

    let expected = logits(&fresh, Phase::Eval);
    assert_eq!(logits(&model.valid(), Phase::Eval), expected);
    let images = images(3, 18, &device);
    assert_eq!(model.forward(images, Phase::Eval).into_data(), expected);
    // Evaluation does not change them.
    assert_eq!(state(&model), trained);
}

#[test]
fn a_counter_of_batches_is_no_surprise() {
    let model = build(small(), 1, &Device::flex());
    let mut weights = StateDict::from_model(&model).unwrap();
    let counter = "stage0.blocks.0.attn.conv_proj_q.bn.num_batches_tracked";
    weights.insert(counter, TensorData::new(vec![7i64], [1]));
    let (_, report) = model.load(&weights, LoadOptions::default()).unwrap();
    let computed: Vec<&str> = report.names(Outcome::Computed).collect();
    assert_eq!(computed, [counter]);
    assert_eq!(report.names(Outcome::Unused).count(), 0);
}
