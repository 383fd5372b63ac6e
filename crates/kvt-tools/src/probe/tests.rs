#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};
use image::{Rgb, RgbImage};
use kvt_models::weights::{LoadOptions, StateDict};
use kvt_models::{Model, ModelConfig, ModelOverrides};

use super::neighbors::sheet;
use super::*;
use kvt_train::analysis::{Analyzer, Measure};
use kvt_train::knn_vote::{KnnVote, Rows, nearest};

fn rows(features: &[[f32; 2]], labels: &[u32]) -> Rows {
    Rows {
        features: features.concat(),
        dim: 2,
        labels: labels.to_vec(),
        indices: (0..labels.len() as u32).collect(),
    }
}

fn vote(neighbors: &[usize], classes: usize) -> KnnVote {
    KnnVote {
        neighbors: neighbors.to_vec(),
        temperature: KnnVote::TEMPERATURE,
        classes,
    }
}

/// One very near image outvotes two farther ones; lengths do not count; on a tie the lower class wins.
#[test]
fn neighbours_vote_by_their_cosine() {
    let device = Device::flex();
    let bank = rows(&[[5.0, 0.0], [0.6, 0.8], [0.6, -0.8]], &[1, 0, 0]);
    let query = rows(&[[1.0, 0.0]], &[1]);
    let found = vote(&[1, 3], 2).classify(&bank, &query, &device).unwrap();
    // exp(1 / 0.07) against 2 exp(0.6 / 0.07).
    assert_eq!([found[0].top1, found[1].top1], [1, 1]);
    let far = KnnVote {
        temperature: 1.0,
        ..vote(&[1, 3], 2)
    };
    // exp(1) against 2 exp(0.6).
    let found = far.classify(&bank, &query, &device).unwrap();
    assert_eq!([found[0].top1, found[1].top1], [1, 0]);
    assert_eq!(found[1].top5, 1);

    let equal = rows(&[[1.0, 0.0], [1.0, 0.0]], &[1, 0]);
    let found = vote(&[2], 2).classify(&equal, &query, &device).unwrap();
    assert_eq!(found[0].top1, 0);
}

/// More images than one chunk, more neighbours than images, and ties, which keep the order of the bank.
#[test]
fn the_nearest_come_first() {
    let device = Device::flex();
    let angle = |i: usize| [(i as f32 * 0.001).cos(), (i as f32 * 0.001).sin()];
    let features: Vec<_> = (0..600).map(angle).collect();
    let all = rows(&features, &vec![0; 600]);
    let mut found = Vec::new();
    nearest(&all, &all, 3, &device, |nearest| {
        found.push(nearest.iter().map(|(place, _)| *place).collect::<Vec<_>>());
    })
    .unwrap();
    assert_eq!(found.len(), 600);
    assert_eq!(found[0][..2], [0, 1]);
    assert_eq!(found[599], [599, 598, 597]);
    let same = rows(&[[1.0, 1.0]; 4], &[0; 4]);
    let mut found = Vec::new();
    nearest(&same, &same, 9, &device, |nearest| {
        found.push(nearest.iter().map(|(place, _)| *place).collect::<Vec<_>>());
    })
    .unwrap();
    assert_eq!(found, vec![vec![0, 1, 2, 3]; 4]);
}

#[test]
fn pixels_are_features_too() {
    let images = Tensor::<4>::from_data(
        [[[[1.0f32, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]],
        &Device::flex(),
    );
    let found: Vec<f32> = Extractor::Pixels
        .features(images)
        .into_data()
        .try_to_vec()
        .unwrap();
    assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// The last blocks side by side, the output last, then the mean of the patches.
#[test]
fn features_of_several_blocks_stand_side_by_side() {
    const DIM: usize = 4;
    let device = Device::flex();
    let sizes = "img_size = 8\npatch_size = 4\nembed_dim = 4\ndepth = 3\nnum_heads = 2\n";
    let overrides: kvt_models::ModelOverrides = toml::from_str(sizes).unwrap();
    let config = kvt_models::ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let model = config.with(&overrides).unwrap();
    let model = Box::new(model.init(&device, kvt_ops::Key::new(0)).unwrap());
    let values: Vec<f32> = (0..2 * 3 * 64)
        .map(|i| ((i * 37) % 101) as f32 / 50.0)
        .collect();
    let data = TensorData::new(values, [2, 3, 8, 8]);
    let images = Tensor::<4>::from_data(data, &device);
    let found = |blocks: usize, avgpool: bool| -> Vec<Vec<f32>> {
        let extractor = Extractor::Backbone {
            model: model.clone(),
            blocks,
            avgpool,
        };
        let features = extractor.features(images.clone());
        let [rows, columns] = features.dims();
        assert_eq!((rows, columns), (2, DIM * (blocks + usize::from(avgpool))));
        let values: Vec<f32> = features.into_data().try_to_vec().unwrap();
        values.chunks(columns).map(<[f32]>::to_vec).collect()
    };
    let (one, two, with_mean) = (found(1, false), found(2, false), found(2, true));
    for ((one, two), with_mean) in one.iter().zip(&two).zip(&with_mean) {
        assert_eq!(two[DIM..], one[..]);
        assert_ne!(two[..DIM], one[..]);
        assert_eq!(with_mean[..2 * DIM], two[..]);
        assert_ne!(with_mean[2 * DIM..], one[..]);
    }
}

/// `weight.data.normal_(mean=0.0, std=0.01)` and `bias.data.zero_()`.
#[test]
fn the_layer_begins_as_the_originals() {
    let layer = LinearProbe::new(200, 50, &Device::flex(), kvt_ops::Key::new(2));
    let [weight, bias] = &layer.weight;
    assert_eq!((weight.dims(), bias.dims()), ([200, 50], [1, 50]));
    let values = |tensor: &Tensor<2>| -> Vec<f64> { tensor.to_data().iter::<f64>().collect() };
    let weight = values(weight);
    let count = weight.len() as f64;
    let mean = weight.iter().sum::<f64>() / count;
    let std = (weight.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    // For 10000 numbers: five standard errors of the mean and of the deviation.
    assert!(mean.abs() < 5e-4, "{mean}");
    assert!((std - 0.01).abs() < 3.6e-4, "{std}");
    assert!(values(bias).iter().all(|x| x.abs() < f64::MIN_POSITIVE));
}

/// A sheet of two rows: sizes, frames, and pictures enlarged without new colours.
#[test]
fn neighbours_are_shown_with_frames() {
    let image = |level| RgbImage::from_pixel(16, 16, Rgb([level; 3]));
    let rows = vec![
        vec![(image(10), None), (image(20), Some(true))],
        vec![(image(30), None), (image(40), Some(false))],
    ];
    let sheet = sheet(&rows);
    // 64 pixels, 3 of frame on both sides, 6 between.
    assert_eq!(sheet.dimensions(), (6 + 2 * 76, 6 + 2 * 76));
    assert_eq!(sheet.get_pixel(9, 9), &Rgb([10; 3]));
    assert_eq!(sheet.get_pixel(6 + 76, 6), &Rgb([0, 114, 178]));
    assert_eq!(sheet.get_pixel(6 + 76, 6 + 76), &Rgb([213, 94, 0]));
    assert_eq!(
        sheet.get_pixel(6 + 76 + 3 + 63, 6 + 76 + 3 + 63),
        &Rgb([40; 3])
    );
}

/// A small model whose queries and keys are 0, and so all scores.
fn even(name: &str, overrides: &str) -> Model {
    let device = Device::flex();
    let sizes = "embed_dim = 8\ndepth = 1\nnum_heads = 2\n";
    let overrides: ModelOverrides = toml::from_str(&format!("{sizes}{overrides}")).unwrap();
    let config = ModelConfig::by_name(name).unwrap().with(&overrides);
    let model = config.unwrap().init(&device, kvt_ops::Key::new(0)).unwrap();
    let mut state = StateDict::from_model(&model).unwrap();
    let zeros = TensorData::new(vec![0.0f32; 192], [24, 8]);
    state.insert("blocks.0.attn.qkv.weight", zeros);
    model.load(&state, LoadOptions::default()).unwrap().0
}

/// Registers are neither patches nor a class token, whatever the number of tokens: of 5 with a register, 8 with four, and 9 with a
/// class token too, four are patches of a map of 2 x 2. On it uniform attention has the mean distance `(0 + 1 + 1 + sqrt 2) / 4`.
#[test]
fn registers_do_not_look_and_are_not_looked_at() {
    for (name, side, tokens, looking) in [
        ("deit_tiny_patch16_224", 32, 5.0, Looking::ClassToken),
        (
            "vit_little_patch16_reg1_gap_256",
            32,
            5.0,
            Looking::AllPatches,
        ),
        (
            "vit_little_patch16_reg4_gap_256",
            32,
            8.0,
            Looking::AllPatches,
        ),
        ("vit_small_patch16_dinov3", 32, 9.0, Looking::ClassToken),
        (
            "vit_small_patch14_reg4_dinov2",
            28,
            9.0,
            Looking::ClassToken,
        ),
    ] {
        let model = even(name, &format!("img_size = {side}\n"));
        let images = Tensor::<4>::ones([1, 3, side, side], &Device::flex());
        let found = attention_maps(&model, images.clone(), Layers::Last);
        let found = found.unwrap().unwrap().remove(0);
        assert_eq!(found.looking, looking, "{name}");
        for map in &found.maps[0] {
            assert_eq!((map.grid, map.kept), ([2, 2], 4), "{name}");
            let is_even = |weight: &f64| (weight - 1.0 / tokens).abs() < 1e-6;
            assert!(map.weights.iter().all(is_even), "{name}: {map:?}");
        }
        let class = class_attention(&model, images.clone()).unwrap();
        match looking {
            Looking::ClassToken => assert_eq!(class.unwrap(), found.maps, "{name}"),
            Looking::AllPatches => assert_eq!(class, Err(NoMap::NoClassToken), "{name}"),
        }
        let mut analyzer = Analyzer::default();
        let precision = model.precision();
        analyzer.add(&model.backbone, precision, images).unwrap();
        let distance = analyzer.layers()[0].get(Measure::Nonlocality).unwrap().mean;
        let expected = (2.0 + 2.0_f64.sqrt()) / 4.0;
        assert!((distance - expected).abs() < 1e-6, "{name}: {distance}");
    }
}

/// If all keys are equal, dense attention is uniform, and k-NN attention keeps the first keys.
#[test]
fn the_class_token_looks_where_its_scores_say() {
    let device = Device::flex();
    let maps = |neighbors: Option<usize>| {
        let attention = match neighbors {
            Some(count) => format!("[attention]\nkind = \"knn\"\nneighbors = {count}\n"),
            None => String::new(),
        };
        let sizes = "img_size = 8\npatch_size = 4\n";
        let model = even("deit_tiny_patch16_224", &format!("{sizes}{attention}"));
        let images = Tensor::<4>::ones([2, 3, 8, 8], &device);
        class_attention(&model, images).unwrap().unwrap()
    };
    let dense = maps(None);
    assert_eq!((dense.len(), dense[0].len()), (2, 2));
    for map in dense.iter().flatten() {
        assert_eq!((map.grid, map.kept), ([2, 2], 4));
        assert!(map.weights.iter().all(|weight| (weight - 0.2).abs() < 1e-6));
    }
    // Of five equal keys the first three are kept: the class token itself and two patches.
    for map in maps(Some(3)).iter().flatten() {
        assert_eq!(map.kept, 2);
        for (weight, expected) in map.weights.iter().zip([1.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]) {
            assert!((weight - expected).abs() < 1e-6);
        }
    }
}
