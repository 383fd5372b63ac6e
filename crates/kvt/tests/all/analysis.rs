//! The metrics of layers and Transformer Attribution: reference values from PyTorch, and the commands.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::LoadOptions;
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;
use kvt_papers::attribution::{Attribution, AttributionError, attribute, check};
use kvt_train::analysis::{Analyzer, Measure};
use kvt_train::run::Event;

use crate::support::{Golden, Workspace, read_weights};

/// The model of a golden file, with its weights.
fn model(golden: &Golden, neighbors: Option<u64>) -> Model {
    let config = &golden.config;
    let number = |key: &str| config[key].as_u64().unwrap();
    let attention = match neighbors {
        Some(count) => format!("[attention]\nkind = \"knn\"\nneighbors = {count}\n"),
        None => String::new(),
    };
    let sizes = [
        "img_size",
        "patch_size",
        "embed_dim",
        "depth",
        "num_heads",
        "num_classes",
    ]
    .map(|key| format!("{key} = {}\n", number(key)))
    .concat();
    let ratio = config["mlp_ratio"].as_f64().unwrap();
    let text = format!("{sizes}mlp_ratio = {ratio:?}\n{attention}");
    let overrides: ModelOverrides = toml::from_str(&text).unwrap();
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let model = config
        .with(&overrides)
        .unwrap()
        .init(&Device::flex(), Key::new(0))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    golden.write_weights(&file);
    let (model, _) = model
        .load(&read_weights(&file), LoadOptions::default())
        .unwrap();
    model
}

/// `count` images of a golden file, starting at `first`, `[count, 3, 16, 16]`.
fn images(golden: &Golden, first: usize, count: usize) -> Tensor<4> {
    let size = 3 * 16 * 16;
    let pixels = golden.f32s("images");
    let pixels = pixels[first * size..(first + count) * size].iter();
    let pixels: Vec<f32> = pixels.map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new(pixels, [count, 3, 16, 16]), &Device::flex())
}

/// Every convention of every metric, with its standard error, in batches of 2, 2 and 1 images.
#[test]
fn metrics_of_layers_are_pytorchs() {
    for kind in ["dense", "knn"] {
        let golden = Golden::read(&format!(
            "kvt-train/tests/golden/analysis_{kind}.safetensors"
        ));
        let model = model(&golden, golden.config["attention"]["neighbors"].as_u64());
        let mut analyzer = Analyzer::default();
        for (first, count) in [(0, 2), (2, 2), (4, 1)] {
            let images = images(&golden, first, count);
            let precision = model.precision();
            analyzer.add(&model.backbone, precision, images).unwrap();
        }
        let layers = analyzer.layers();
        assert_eq!(layers.len(), 3);
        for measure in Measure::ALL {
            let name = measure.name();
            let (means, errors) = (golden.f32s(name), golden.f32s(&format!("{name}_se")));
            for (layer, (mean, error)) in layers.iter().zip(means.iter().zip(&errors)) {
                let found = layer.get(measure).unwrap();
                let off = (found.mean - mean).abs() / mean.abs();
                assert!(off < 2e-5, "{kind} {name}: {found:?} instead of {mean}");
                let off = (found.error.unwrap() - error).abs();
                assert!(
                    off < 1e-5 * mean.abs(),
                    "{kind} {name}: {found:?} instead of {error}"
                );
            }
        }
        // The conventions differ, so that confusing them shows.
        let one = layers[0].get(Measure::Std).unwrap().mean;
        assert!((one - layers[0].get(Measure::StdPopulation).unwrap().mean).abs() > 1e-3);
    }
}

/// Attributions of both images of a golden file: for the most and for the least probable class.
fn attributions(golden: &Golden, model: &Model) -> [Attribution; 2] {
    let classes = golden.i64s("class");
    [0, 1].map(|image| {
        let class = (image == 1).then(|| classes[1] as usize);
        attribute(model, images(golden, image, 1), class).unwrap()
    })
}

/// Tolerance relative to the largest expected value.
#[track_caller]
fn assert_close(what: &str, actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (a - e).abs() < 5e-4 * largest,
            "{what} {index}: {a} instead of {e}"
        );
    }
}

/// Logits, the gradient and the relevance of every attention weight, and the attribution, as in the authors' code.
#[test]
fn attribution_is_its_authors() {
    for kind in ["dense", "knn"] {
        let golden = Golden::read(&format!(
            "kvt-train/tests/golden/attribution_{kind}.safetensors"
        ));
        let model = model(&golden, golden.config["neighbors"].as_u64());
        let classes = golden.i64s("class");
        let [all, gradients, relevances, patches] =
            ["logits", "gradient", "relevance", "patches"].map(|name| golden.f32s(name));
        for (image, found) in attributions(&golden, &model).into_iter().enumerate() {
            assert_eq!((found.class as i64, found.grid), (classes[image], [4, 4]));
            let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
            assert_close("logits", &wide(&found.logits), &all[image * 5..][..5]);
            let size = 3 * 17 * 17;
            for (number, block) in found.blocks.iter().enumerate() {
                let at = (image * 3 + number) * size;
                let what = format!("{kind} image {image} block {number}");
                assert_close(&what, &wide(&block.gradient), &gradients[at..at + size]);
                assert_close(&what, &wide(&block.relevance), &relevances[at..at + size]);
            }
            assert_close(kind, &found.patches, &patches[image * 16..][..16]);
        }
    }
}

/// With k-NN attention a dropped key has no relevance, although its weight has a gradient.
#[test]
fn dropped_keys_have_no_relevance() {
    let golden = Golden::read("kvt-train/tests/golden/attribution_knn.safetensors");
    let [found, _] = attributions(
        &golden,
        &model(&golden, golden.config["neighbors"].as_u64()),
    );
    let block = &found.blocks[0];
    for (relevance, gradient) in block.relevance.chunks(17).zip(block.gradient.chunks(17)) {
        let relevant = relevance.iter().filter(|x| **x != 0.0).count();
        assert!(relevant <= 5, "{relevance:?}");
        assert!(gradient.iter().filter(|x| **x != 0.0).count() > 5);
    }
}

#[test]
fn attribution_is_refused_where_it_is_not_defined() {
    let of = |name: &str, overrides: &str| {
        let overrides: ModelOverrides = toml::from_str(overrides).unwrap();
        let config = ModelConfig::by_name(name)
            .unwrap()
            .with(&overrides)
            .unwrap();
        let model = config.init(&Device::flex(), Key::new(0)).unwrap();
        check(&model)
    };
    let small = "img_size = 32\nembed_dim = 8\ndepth = 1\nnum_heads = 2\nnum_classes = 3\n";
    assert!(of("deit_tiny_patch16_224", small).is_ok());
    let refused = of("deit_tiny_distilled_patch16_224", small).unwrap_err();
    assert!(matches!(refused, AttributionError::Undefined { .. }));
    assert!(refused.to_string().contains("two tokens"), "{refused}");
    let linear = format!("{small}[attention]\nkind = \"linear\"\n");
    let refused = of("deit_tiny_patch16_224", &linear).unwrap_err();
    assert!(
        refused.to_string().contains("`linear` attention"),
        "{refused}"
    );
    let refused = of("pit_ti_224", "").unwrap_err();
    assert!(
        refused.to_string().contains("not defined for `pit_ti"),
        "{refused}"
    );
}

/// A run with an analysis logs its layers, and writes a table of them; `kvt analyze` finds the same in the last checkpoint.
#[test]
fn a_run_tells_of_its_layers() {
    let workspace = Workspace::with_data(6, 2);
    let overrides = [
        "analysis.every=1",
        "analysis.images=6",
        "analysis.split=val",
    ];
    let events = workspace.train("run", &overrides);
    let layers: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Layer(layer) => Some(layer),
            _ => None,
        })
        .collect();
    let places: Vec<_> = layers.iter().map(|x| (x.epoch, x.layer, x.block)).collect();
    assert_eq!(places, [(0, 1, 0), (0, 2, 1), (1, 1, 0), (1, 2, 1)]);
    let csv = workspace.read("run/layers.csv");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("epoch,layer,stage,block,split,images,cosine,cosine_se,"));
    let out = workspace.json(&[
        "analyze",
        "--run",
        "run",
        "--checkpoint",
        "last",
        "--json",
        "--out",
        "analysis",
    ]);
    let last = layers.iter().filter(|layer| layer.epoch == 1);
    for (found, logged) in out["layers"].as_array().unwrap().iter().zip(last) {
        assert_eq!(found["images"], 6);
        for measure in Measure::ALL {
            let name = measure.name();
            let mean = found["measures"][name]["mean"].as_f64().unwrap();
            let off = (mean - logged.metrics.get(name).unwrap()).abs();
            assert!(off < 1e-6, "{name}: {off}");
        }
    }
    let mut files = workspace.entries("analysis");
    files.sort();
    assert_eq!(
        files,
        ["layers.csv", "layers.json", "layers.md", "layers.svg"]
    );
    assert!(
        workspace
            .read("analysis/layers.svg")
            .contains("cosine similarity")
    );
    // Training itself is the same without it.
    let plain = Workspace::with_data(6, 2).train("run", &[]);
    let losses = |events: &[Event]| -> Vec<f64> {
        let steps = events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step.loss),
            _ => None,
        });
        steps.collect()
    };
    assert_eq!(losses(&plain), losses(&events));
}

/// 5 of 17 keys are kept, and 17 queries have two tiles of 8 and one of 16. What is kept together is at least what a query keeps, and
/// a larger tile does not keep less.
#[test]
fn tiles_of_knn_attention_are_in_a_table() {
    let workspace = Workspace::with_data(6, 2);
    let knn = ["model.attention.kind=knn", "model.attention.neighbors=5"];
    workspace.train("run", &knn);
    let out = workspace.json(&["analyze", "--run", "run", "--json", "--out", "analysis"]);
    let csv = workspace.read("analysis/tiles.csv");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let column = |row: &[&str], name: &str| -> f64 {
        let place = header.iter().position(|&found| found == name).unwrap();
        row[place].parse().unwrap()
    };
    let rows: Vec<_> = rows.collect();
    let sizes: Vec<_> = rows.iter().map(|row| column(row, "tile")).collect();
    assert_eq!(sizes, [8.0, 16.0, 8.0, 16.0]);
    for pair in rows.chunks(2) {
        let [small, large] = [0, 1].map(|size| column(&pair[size], "union"));
        assert!(5.0 <= small && small <= large && large <= 17.0, "{csv}");
        for row in pair {
            let counts = ["keys", "kept"].map(|name| column(row, name).round());
            assert_eq!(counts, [17.0, 5.0]);
            assert!((0.0..=1.0).contains(&column(row, "heads")), "{csv}");
        }
    }
    let tiles = out["layers"][1]["tiles"].as_array().unwrap();
    let off = tiles[1]["union"].as_f64().unwrap() - column(&rows[3], "union");
    assert!(off.abs() < 1e-9, "{off}");
    let page = workspace.read("analysis/layers.md");
    assert!(page.contains("keys they keep together"), "{page}");
    let picture = workspace.read("analysis/tiles.svg");
    assert!(picture.contains("kept keys that two heads share"));
}

#[test]
fn an_attribution_is_drawn() {
    let workspace = Workspace::with_data(4, 2);
    workspace.train("run", &[]);
    workspace.images("some", 2);
    let output = workspace
        .kvt(&[
            "attribution-map",
            "--run",
            "run",
            "--class",
            "b",
            "--out",
            "maps",
            "some",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let csv = workspace.read("maps/relevance.csv");
    assert_eq!(csv.lines().count(), 1 + 2 * 16, "{csv}");
    assert_eq!(workspace.entries("maps").len(), 3);
    let error = workspace.error(&[
        "attribution-map",
        "--run",
        "run",
        "--class",
        "z",
        "--out",
        "maps",
        "some",
    ]);
    assert!(error.contains("there is no class `z`"), "{error}");
}
