#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors, Selection};
use kvt_models::{ModelConfig, ModelOverrides};
use kvt_ops::{Key, Phase};
use prost::Message;
use rand::RngExt;

use super::*;
use crate::record::testing::recording;

/// The smallest models of all families, which the tests of `kvt-models` use.
#[path = "../../kvt-models/tests/all/small.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod small;

mod run;

fn knn() -> ModelOverrides {
    ModelOverrides {
        attention: Some(AttentionConfig::knn(Neighbors::fraction(0.5).unwrap())),
        ..ModelOverrides::default()
    }
}

/// Small vision transformers that are more than a DeiT: registers, rotary positions, gates, layer scale, pools.
fn vits(change: &ModelOverrides) -> Vec<ModelConfig> {
    let small = ModelOverrides {
        patch_size: Some(4),
        embed_dim: Some(24.into()),
        depth: Some(2.into()),
        num_heads: Some(2.into()),
        ..small::small(change.clone())
    };
    let names = [
        "vit_small_plus_patch16_dinov3_qkvb",
        "vit_base_patch16_siglip_224",
        "vit_base_patch16_clip_quickgelu_224",
        "vit_giant_patch14_reg4_dinov2",
        "vit_medium_patch16_reg4_gap_256",
    ];
    let named = names.map(|name| ModelConfig::by_name(name).unwrap());
    named.map(|config| config.with(&small).unwrap()).into()
}

/// Two of them for images that are not square, with rotary and with learned positions.
fn wide(change: &ModelOverrides) -> Vec<ModelConfig> {
    let wide = ModelOverrides {
        img_size: Some([16, 24].into()),
        ..ModelOverrides::default()
    };
    let configs = vits(change).into_iter().take(2);
    configs.map(|config| config.with(&wide).unwrap()).collect()
}

fn build(config: &ModelConfig) -> Model {
    config.init(&Device::flex(), Key::new(1)).unwrap()
}

/// The file of a model, read back, whose logits are the model's.
fn exported(config: &ModelConfig, batch: Option<usize>) -> proto::Model {
    let facts = BTreeMap::from([("model".to_owned(), "\"tiny\"".to_owned())]);
    let onnx = onnx(build(config), batch.and_then(NonZeroUsize::new), &facts);
    let onnx = onnx.unwrap_or_else(|error| panic!("{}: {error}", config.name()));
    let file = proto::Model::decode(&*onnx.bytes).unwrap();

    // Another length than those that are recorded.
    let size = config.img_size();
    let shape = [batch.unwrap_or(4), 3, size.height, size.width];
    let mut rng = Key::new(2).rng();
    let pixels: Vec<f32> = (0..shape.iter().product())
        .map(|_: usize| rng.random_range(-2.0..2.0))
        .collect();
    let data = pixels.iter().map(|pixel| f64::from(*pixel)).collect();
    let found = run::run(
        file.graph.as_ref().unwrap(),
        run::Value::new(shape.into(), data),
    );
    let images = Tensor::<4>::from_data(TensorData::new(pixels, shape), &Device::flex());
    let logits = build(config).forward(images, Phase::Eval);
    assert_eq!(found.shape, logits.dims(), "{}", config.name());
    let expected = small::values(logits);
    for (found, expected) in found.data.iter().zip(&expected) {
        let difference = (found - f64::from(*expected)).abs();
        assert!(
            difference < 1e-4,
            "{}: {found} for {expected}",
            config.name()
        );
    }
    file
}

/// Every value is computed or given before it is read, once, and constants have as many bytes as their shapes say.
fn assert_whole(name: &str, graph: &proto::Graph) {
    let mut known = BTreeSet::from([graph::INPUT, ""]);
    for constant in &graph.initializer {
        let size = match constant.data_type {
            1 | 6 => 4,
            7 => 8,
            9 => 1,
            other => panic!("{name}: type {other}"),
        };
        let bytes = constant.dims.iter().product::<i64>() * size;
        assert_eq!(
            constant.raw_data.len() as i64,
            bytes,
            "{name}: {}",
            constant.name
        );
        assert!(known.insert(&constant.name), "{name}: {}", constant.name);
    }
    for node in &graph.node {
        for input in &node.input {
            assert!(
                known.contains(input.as_str()),
                "{name}: {} reads {input}",
                node.name
            );
        }
        for output in &node.output {
            assert!(known.insert(output), "{name}: {output} twice");
        }
    }
    assert!(known.contains(graph::OUTPUT), "{name}");
}

fn lengths(info: &proto::ValueInfo) -> Vec<Result<i64, String>> {
    let tensor = info.kind.clone().unwrap().tensor.unwrap();
    let dims = tensor.shape.unwrap().dim.into_iter();
    dims.map(|dim| dim.value.ok_or_else(|| dim.name.unwrap()))
        .collect()
}

#[test]
fn every_family_is_exported() {
    for (change, batch) in [
        (ModelOverrides::default(), None),
        (ModelOverrides::default(), Some(2)),
        (knn(), None),
        (knn(), Some(2)),
    ] {
        let configs = small::configs(&change).into_iter();
        for config in configs.chain(vits(&change)).chain(wide(&change)) {
            let name = config.name();
            let file = exported(&config, batch);
            assert_eq!(file.metadata_props[0].value, "\"tiny\"");
            let graph = file.graph.unwrap();
            assert_whole(&name, &graph);
            let first = batch.map_or(Err("batch".to_owned()), |batch| Ok(batch as i64));
            let size = config.img_size();
            let [height, width] = [size.height, size.width].map(|side| Ok(side as i64));
            assert_eq!(
                lengths(&graph.input[0]),
                [first.clone(), Ok(3), height, width],
                "{name}"
            );
            assert_eq!(lengths(&graph.output[0]), [first, Ok(3)], "{name}");
            // One selection for each block that chooses keys, and as many softmaxes.
            let count = |kind: &str| {
                graph
                    .node
                    .iter()
                    .filter(|node| node.op_type == kind)
                    .count()
            };
            let stages = config.summary().stages;
            let choosing = stages
                .iter()
                .filter(|stage| stage.takes_attention && stage.k < stage.keys);
            let blocks = choosing.map(|stage| stage.depth).sum::<usize>();
            assert_eq!(count("TopK"), blocks, "{name}");
            assert!(count("Softmax") >= blocks.max(1), "{name}");
        }
    }
}

/// Maps of 8 x 8 tokens do not divide into windows of 3 x 3: there are zeros between their tokens, for any batch.
#[test]
fn padded_windows_are_exported() {
    let change = ModelOverrides {
        window_size: Some(3.into()),
        ..ModelOverrides::default()
    };
    let dense = small::configs(&ModelOverrides::default()).into_iter();
    let dense = dense.filter(|of| matches!(of, ModelConfig::Swin(_) | ModelConfig::Twins(_)));
    // Where queries choose keys, a Twins hides the zeros.
    let choosing = small::configs(&knn()).into_iter();
    let choosing = choosing.filter(|of| matches!(of, ModelConfig::Twins(_)));
    let configs = dense.chain(choosing);
    for config in configs.map(|config| config.with(&change).unwrap()) {
        let graph = exported(&config, None).graph.unwrap();
        assert_whole(&config.name(), &graph);
        let is_zeros = |node: &proto::Node| node.op_type == "ConstantOfShape";
        assert!(graph.node.iter().any(is_zeros), "{}", config.name());
    }
}

/// Without windows, and with biases and masks of windows.
#[test]
fn all_ways_of_choosing_keys_are_exported() {
    for (selection, implementation) in [
        (Selection::Euclidean, Implementation::Masked),
        (Selection::Euclidean, Implementation::Gathered),
        (Selection::DotProduct, Implementation::Flash),
        (Selection::DotProduct, Implementation::Masked),
    ] {
        let knn = KnnConfig {
            selection,
            implementation,
            ..KnnConfig::new(Neighbors::fraction(0.5).unwrap())
        };
        let change = ModelOverrides {
            attention: Some(AttentionConfig::Knn(knn)),
            ..ModelOverrides::default()
        };
        for config in small::configs(&change).into_iter().take(2) {
            assert_whole(&config.name(), &exported(&config, None).graph.unwrap());
        }
    }
}

/// In the order of PyTorch's layout, but for linear layers.
#[test]
fn weights_keep_their_names_and_numbers() {
    let config = small::configs(&ModelOverrides::default()).remove(0);
    let graph = exported(&config, None).graph.unwrap();
    let (model, mut seen) = (build(&config), 0);
    for (name, data) in kvt_models::weights::StateDict::from_model(&model)
        .unwrap()
        .iter()
    {
        let found = graph
            .initializer
            .iter()
            .find(|constant| constant.name == name);
        let found = found.unwrap_or_else(|| panic!("{name}"));
        let shape: Vec<i64> = data.shape().as_slice().iter().map(|n| *n as i64).collect();
        if shape.len() == 2 {
            let swapped: Vec<i64> = shape.iter().rev().copied().collect();
            assert_eq!(found.dims, swapped, "{name}");
        } else {
            assert_eq!(found.dims, shape, "{name}");
            assert_eq!(found.raw_data, data.as_bytes(), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn other_kinds_of_attention_are_refused_before_anything_is_recorded() {
    let mut kinds = AttentionConfig::defaults().into_iter();
    let change = ModelOverrides {
        attention: kinds.find(|attention| attention.kind() == "linear"),
        ..ModelOverrides::default()
    };
    let config = small::configs(&ModelOverrides::default())
        .remove(0)
        .with(&change)
        .unwrap();
    let error = onnx(build(&config), None, &BTreeMap::new()).unwrap_err();
    let expected = "stage `blocks` has the attention `linear`: only `dense` and `knn` are exported";
    assert_eq!(error.to_string(), expected);
}

fn of(work: impl Fn(Tensor<2>) -> Tensor<2>) -> Result<proto::Graph, ExportError> {
    let [first, second] = [2, 3].map(|batch| recording(&work, [batch, 4]));
    graph(Recorded {
        recordings: [&first, &second],
        batches: [2, 3],
    })
}

/// `x` is `[batch, 4]`.
#[test]
fn what_has_no_translation_is_named() {
    let message = |work: fn(Tensor<2>) -> Tensor<2>| of(work).unwrap_err().to_string();
    let error = message(|x| x.sort(1));
    assert!(
        error.starts_with("`Sort` at the beginning of the model"),
        "{error}"
    );
    // The second image, the images in other columns, and a constant for each image.
    for work in [
        (|x| x.narrow(0, 1, 1)) as fn(Tensor<2>) -> Tensor<2>,
        // All images of the first recording, not of the second.
        |x| x.narrow(0, 0, 2),
        // Other columns for more images, as many of them.
        |x| x.clone().narrow(1, x.dims()[0] - 2, 1),
    ] {
        let error = message(work);
        assert!(
            error.starts_with("`Slice`") && error.contains("--batch"),
            "{error}"
        );
    }
    let error = message(|x| {
        let numbers: Vec<f32> = (0..x.dims()[0] * 4).map(|i| i as f32).collect();
        let numbers = TensorData::new(numbers, x.dims());
        x.clone() + Tensor::from_data(numbers, &x.device())
    });
    assert!(error.starts_with("`a constant`"), "{error}");
}

/// The mean over the images: its number fits one length of the batch.
#[test]
fn a_number_that_depends_on_the_batch_is_refused_unless_the_batch_is_fixed() {
    let work = |x: Tensor<2>| {
        let images = x.dims()[0] as f32;
        x / images
    };
    let expected = "`DivScalar` at the beginning of the model computes with 2 for one number of images and with 3 for another, \
                    and one graph has one number: fix the batch with `--batch N`";
    assert_eq!(of(work).unwrap_err().to_string(), expected);
    let fixed = recording(work, [2, 4]);
    let graph = graph(Recorded {
        recordings: [&fixed; 2],
        batches: [2; 2],
    });
    let graph = graph.unwrap();
    let found = run::run(&graph, run::Value::new(vec![2, 4], vec![6.0; 8]));
    assert_eq!(found.data, [3.0; 8]);
    // A number that is the same for all batches is none of its lengths, nor is one that is no number.
    for number in [2.0, f32::NAN] {
        assert!(of(|x| x * number).is_ok(), "{number}");
    }
}

/// A class token for each image: the shape that it is spread to is computed from that of the images.
#[test]
fn lengths_of_the_batch_are_computed() {
    let graph = of(|x| {
        let [batch, width] = x.dims();
        let one = Tensor::<2>::from_data([[1.0, 2.0, 3.0, 4.0]], &x.device());
        x + one.expand([batch, width])
    });
    let graph = graph.unwrap();
    assert_whole("expand", &graph);
    let kinds: Vec<&str> = graph
        .node
        .iter()
        .map(|node| node.op_type.as_str())
        .collect();
    assert_eq!(
        kinds,
        ["Shape", "Gather", "Concat", "Expand", "Add", "Identity"]
    );
    // A row for each image, and columns of all images.
    for work in [
        (|x| {
            let one = Tensor::<2>::ones([1, 4], &x.device());
            x.clone() + one.repeat_dim(0, x.dims()[0])
        }) as fn(Tensor<2>) -> Tensor<2>,
        |x| x.narrow(1, 1, 2),
    ] {
        assert_whole("columns", &of(work).unwrap());
    }
}
