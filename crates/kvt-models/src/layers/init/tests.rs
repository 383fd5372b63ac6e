#![expect(clippy::unwrap_used, reason = "tests")]
use super::*;

fn values<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    param.val().into_data().try_to_vec().unwrap()
}

fn mean_and_std(values: &[f32]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|v| (f64::from(*v) - mean).powi(2))
        .sum::<f64>()
        / n;
    (mean, variance.sqrt())
}

#[test]
fn linear_weights_are_normal_and_biases_zero() {
    let device = Device::flex();
    let linear = Init::new(&device, Key::new(5)).linear("fc1", 200, 300, true);
    assert_eq!(linear.weight.dims(), [200, 300]);
    let weights = values(&linear.weight);
    let (mean, std) = mean_and_std(&weights);
    // Standard errors: 0.02 / sqrt(60000) = 8e-5 and 0.02 / sqrt(120000) = 6e-5.
    assert!(mean.abs() < 5e-4, "mean {mean}");
    assert!((std - 0.02).abs() < 4e-4, "std {std}");
    // A normal has 4.55 % beyond two standard deviations; a cut at 2 sigma would have none.
    let beyond = weights.iter().filter(|w| w.abs() > 0.04).count() as f64 / 60_000.0;
    assert!((beyond - 0.0455).abs() < 0.006, "beyond {beyond}");
    assert!(
        values(linear.bias.as_ref().unwrap())
            .iter()
            .all(|b| *b == 0.0)
    );
}

/// PiT's.
#[test]
fn uniform_linears_have_weights_and_biases_within_the_bound() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(5)).with_uniform_linears();
    let linear = init.linear("fc", 64, 100, true);
    let bound = 1.0 / 8.0;
    for values in [
        values(&linear.weight),
        values(linear.bias.as_ref().unwrap()),
    ] {
        let (mean, std) = mean_and_std(&values);
        let largest = values.iter().fold(0.0f32, |max, v| max.max(v.abs()));
        assert!(f64::from(largest) <= bound, "{largest}");
        assert!(f64::from(largest) > 0.9 * bound, "{largest}");
        assert!(mean.abs() < 0.2 * bound, "mean {mean}");
        assert!(
            (std - bound / 3f64.sqrt()).abs() < 0.15 * bound,
            "std {std}"
        );
    }
}

#[test]
fn patch_weights_are_uniform_within_the_bound() {
    let device = Device::flex();
    let settings = ConvSettings {
        in_channels: 3,
        out_channels: 64,
        kernel: 8,
        stride: 8,
        padding: 0,
        groups: 1,
        bias: true,
    };
    let proj = Init::new(&device, Key::new(5)).conv("proj", settings);
    let bound = 1.0 / f64::from(3 * 8 * 8).sqrt();
    let weights = values(&proj.weight);
    assert!(weights.iter().all(|w| f64::from(w.abs()) <= bound));
    let (mean, std) = mean_and_std(&weights);
    assert!(mean.abs() < bound * 0.03);
    assert!((std - bound / 3f64.sqrt()).abs() < bound * 0.02);
    let (_, bias_std) = mean_and_std(&values(proj.bias.as_ref().unwrap()));
    assert!((bias_std - bound / 3f64.sqrt()).abs() < bound * 0.2);
}

#[test]
fn a_weight_depends_on_seed_and_path_only() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(5));
    let weight = |init: Init<'_>, name| values(&init.linear(name, 4, 4, false).weight);
    assert_eq!(
        weight(init.child("blocks").child("0"), "qkv"),
        weight(init.child("blocks").child("0"), "qkv")
    );
    assert_ne!(
        weight(init.child("blocks").child("0"), "qkv"),
        weight(init.child("blocks").child("1"), "qkv")
    );
    assert_ne!(weight(init, "fc1"), weight(init, "fc2"));
    let token = |name| values(&init.token(name, 1, 8));
    assert_ne!(token("cls_token"), token("dist_token"));
    assert_ne!(
        weight(init, "fc1"),
        weight(Init::new(&device, Key::new(6)), "fc1")
    );
}
