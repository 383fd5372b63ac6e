#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor};
use kvt_models::dense::state;

use super::signals::{Numbers, Seen, feature_std};
use super::*;

fn matrix<const R: usize, const C: usize>(rows: [[f32; C]; R]) -> Tensor<2> {
    Tensor::from_data(rows, &Device::flex())
}

fn numbers(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// One image, three views: the pairs are (0, 1), (0, 2), (1, 0), (1, 2).
#[test]
fn the_loss_by_hand() {
    let (a, b) = ([0.75f32, 0.25], [0.5f32, 0.5]);
    let log = |p: f32| f64::from(p.ln());
    // Outputs whose softmax at temperature 0.5 is (1/5, 4/5), (1/2, 1/2), (9/10, 1/10).
    let outputs = [0.2f32, 0.5, 0.9].map(|p| [0.5 * p.ln(), 0.5 * (1.0 - p).ln()]);
    let entropy = |q: [f32; 2], p: f32| -f64::from(q[0]) * log(p) - f64::from(q[1]) * log(1.0 - p);
    let expected = (entropy(a, 0.5) + entropy(a, 0.9) + entropy(b, 0.2) + entropy(b, 0.9)) / 4.0;
    let found = numbers(dino_loss(&matrix([a, b]), matrix(outputs), 0.5));
    assert!(
        (f64::from(found[0]) - expected).abs() < 1e-6,
        "{found:?} {expected}"
    );
}

/// softmax((x - c) / t) of outputs that differ from the centre by t ln 3.
#[test]
fn the_teacher_is_centred_and_sharpened() {
    let centre = Tensor::<1>::from_data([1.0f32, -2.0], &Device::flex());
    let outputs = matrix([[1.0 + 0.1 * 3f32.ln(), -2.0]]);
    let found = teacher_probabilities(outputs, centre, 0.1);
    let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
    assert!((found[0] - 0.75).abs() < 1e-5, "{found:?}");
}

#[test]
fn temperatures_rise_to_the_end_of_their_warm_up() {
    let config = DinoConfig {
        warmup_teacher_temp: 0.04,
        teacher_temp: 0.07,
        warmup_teacher_temp_epochs: 4,
        ..DinoConfig::default()
    };
    let found: Vec<f64> = (0..6).map(|epoch| config.teacher_temp_in(epoch)).collect();
    for (found, expected) in found.iter().zip([0.04, 0.05, 0.06, 0.07, 0.07, 0.07]) {
        assert!((found - expected).abs() < 1e-12, "{found}");
    }
    // `numpy.linspace` with one number returns the first.
    let one = DinoConfig {
        warmup_teacher_temp_epochs: 1,
        ..config
    };
    assert_eq!([0, 1].map(|epoch| one.teacher_temp_in(epoch)), [0.04, 0.07]);
}

/// Features at the corners of a square, features with a single direction, and the warnings about the teacher.
#[test]
fn a_collapse_is_named() {
    let corners = matrix([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, -1.0]]);
    let std = numbers(feature_std(corners.clone()))[0];
    assert!((std - 1.0).abs() < 1e-6, "{std}");
    let same = matrix([[1.0, 0.5], [2.0, 1.0], [4.0, 2.0], [1.0, 0.5]]);
    assert!(numbers(feature_std(same.clone()))[0] < 1e-3);

    let config = DinoConfig {
        out_dim: 2,
        ..DinoConfig::default()
    };
    let centre = Tensor::<1>::from_data([0.5f32, -0.5], &Device::flex());
    let of = |row: [[f32; 2]; 4], features: &Tensor<2>| {
        let seen = Seen {
            probabilities: Tensor::cat(vec![matrix(row), matrix(row)], 0),
            features: Tensor::cat(vec![features.clone(), features.clone()], 0),
        };
        read(&seen, &centre)
    };
    let fine = [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]];
    let found = of(fine, &corners);
    let entropy = -(0.9 * 0.9f64.ln() + 0.1 * 0.1f64.ln());
    assert!((found.entropy - entropy).abs() < 1e-6);
    assert!((found.entropy_of_mean - 2f64.ln()).abs() < 1e-6);
    assert!((found.centre_std - 0.5).abs() < 1e-6);
    assert_eq!(found.collapse(&config), None);
    let told = |row, features: &Tensor<2>| of(row, features).collapse(&config).unwrap();
    let text = told([[1.0, 0.0]; 4], &corners);
    assert!(
        text.contains("one output") && text.contains("dino.center_momentum"),
        "{text}"
    );
    let text = told([[0.5, 0.5]; 4], &corners);
    assert!(
        text.contains("uniform") && text.contains("dino.teacher_temp"),
        "{text}"
    );
    let text = told(fine, &same);
    assert!(
        text.contains("same for every image") && text.contains("optim.lr"),
        "{text}"
    );
}

/// Two views of one image should be similar; two images are checked.
#[test]
fn one_image_has_not_collapsed() {
    let config = DinoConfig {
        out_dim: 2,
        ..DinoConfig::default()
    };
    let centre = Tensor::<1>::zeros([2], &Device::flex());
    let told = |images: usize| {
        let rows = |row: [f32; 2]| matrix([row]).repeat_dim(0, GLOBAL_VIEWS * images);
        let seen = Seen {
            probabilities: rows([1.0, 0.0]),
            features: rows([0.6, 0.8]),
        };
        read(&seen, &centre).collapse(&config)
    };
    assert_eq!(told(1), None);
    assert!(told(2).is_some());
}

fn read(seen: &Seen, centre: &Tensor<1>) -> Numbers {
    let numbers = seen.numbers(centre).try_into_vec_as::<f64>();
    Numbers::new(seen.images(), &numbers.unwrap())
}

/// Mean, standard deviation and maximum magnitude of the elements of a weight.
fn spread(state: &StateDict, name: &str) -> (f64, f64, f64) {
    let values: Vec<f64> = state.get(name).unwrap().iter::<f64>().collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let largest = values
        .iter()
        .fold(0.0f64, |largest, x| largest.max(x.abs()));
    (mean, variance.sqrt(), largest)
}

/// `trunc_normal_(std=.02)` and zero biases in the MLP; in the last layer, the uniform weights of `nn.Linear`, whose bound is
/// `1 / sqrt(inputs)`, and `weight_g.data.fill_(1)`.
#[test]
fn the_head_begins_as_the_originals() {
    for norm_last_layer in [true, false] {
        let config = DinoConfig {
            out_dim: 300,
            hidden_dim: 48,
            bottleneck_dim: 64,
            norm_last_layer,
            ..DinoConfig::default()
        };
        let head = DinoHead::new(&config, 32, &Device::flex(), Key::new(1));
        let state = state::state_dict(&head, "").unwrap();
        let v = "last_layer.weight_v";
        assert_eq!(state.get(v).unwrap().shape().to_vec(), [300, 64]);
        let bound = 1.0 / 64f64.sqrt();
        let (mean, std, largest) = spread(&state, v);
        assert!(largest <= bound && largest > 0.99 * bound, "{largest}");
        assert!(mean.abs() < 0.02 * bound, "{mean}");
        // For a uniform distribution.
        let expected = bound / 3f64.sqrt();
        assert!((std / expected - 1.0).abs() < 0.03, "{std} {expected}");
        let g = state.get("last_layer.weight_g").unwrap();
        assert_eq!(g.shape().to_vec(), [300, 1]);
        assert!(g.iter::<f64>().all(|x| x.to_bits() == 1f64.to_bits()));
        for (layer, shape) in [(0, [48, 32]), (2, [48, 48]), (4, [64, 48])] {
            let weight = format!("mlp.{layer}.weight");
            assert_eq!(state.get(&weight).unwrap().shape().to_vec(), shape);
            let (mean, std, _) = spread(&state, &weight);
            assert!(mean.abs() < 0.002, "{weight}: {mean}");
            assert!((std / 0.02 - 1.0).abs() < 0.1, "{weight}: {std}");
            let (mean, std, largest) = spread(&state, &format!("mlp.{layer}.bias"));
            assert!(mean.abs() + std + largest < f64::MIN_POSITIVE);
        }
    }
}
