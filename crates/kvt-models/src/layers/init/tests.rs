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

/// As in PiT.
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

const GROUPED: ConvSettings = ConvSettings {
    in_channels: 32,
    out_channels: 64,
    kernel: 3,
    stride: 1,
    padding: 1,
    groups: 8,
    bias: true,
};

/// As in Visformer and So-ViT; groups do not count.
#[test]
fn a_kaiming_convolution_has_the_fan_out_of_all_channels() {
    let device = Device::flex();
    let conv = Init::new(&device, Key::new(5)).conv_kaiming_fan_out("conv", GROUPED);
    assert_eq!(conv.weight.dims(), [64, 4, 3, 3]);
    let (mean, std) = mean_and_std(&values(&conv.weight));
    let expected = (2.0f64 / (64.0 * 9.0)).sqrt();
    // 2,304 numbers: standard errors of 2.1 % and 1.5 % of the deviation.
    assert!(mean.abs() < 0.08 * expected, "mean {mean}");
    assert!((std / expected - 1.0).abs() < 0.06, "std {std}");
    assert_eq!(values(conv.bias.as_ref().unwrap()), [0.0; 64]);
}

/// As in Twins: groups count.
#[test]
fn a_fan_out_is_divided_by_groups() {
    let device = Device::flex();
    let conv = Init::new(&device, Key::new(5)).conv_fan_out_groups("conv", GROUPED);
    let (mean, std) = mean_and_std(&values(&conv.weight));
    let expected = (2.0f64 / (8.0 * 9.0)).sqrt();
    assert!(mean.abs() < 0.08 * expected, "mean {mean}");
    assert!((std / expected - 1.0).abs() < 0.06, "std {std}");
    assert_eq!(values(conv.bias.as_ref().unwrap()), [0.0; 64]);
}

/// As in So-ViT; the truncated normal, in contrast, is cut at 2.
#[test]
fn a_standard_normal_is_not_cut() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(5));
    let numbers = values(&init.normal("x", [100, 100], 1.0));
    let (mean, std) = mean_and_std(&numbers);
    assert!(
        mean.abs() < 0.04 && (std - 1.0).abs() < 0.03,
        "{mean} {std}"
    );
    // 4.55 % of a normal.
    let beyond = numbers.iter().filter(|x| x.abs() > 2.0).count();
    assert!((380..530).contains(&beyond), "{beyond}");
    let (_, std) = mean_and_std(&values(&init.normal("x", [100, 100], 0.3)));
    assert!((std - 0.3).abs() < 0.01, "{std}");
}

/// T2T-ViT's performer: `sqrt(32)` times 32 orthonormal rows; and the same for columns.
#[test]
fn an_orthogonal_matrix_has_orthogonal_rows_of_the_length_asked_for() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(5));
    for [rows, columns] in [[32, 64], [64, 32], [5, 5]] {
        let data = init.orthogonal("w", [rows, columns], 32f64.sqrt());
        assert_eq!(data.shape().as_slice(), [rows, columns]);
        let values: Vec<f32> = data.try_to_vec().unwrap();
        let at = |row: usize, column: usize| f64::from(values[row * columns + column]);
        let product = |a: usize, b: usize| -> f64 {
            if rows <= columns {
                (0..columns).map(|i| at(a, i) * at(b, i)).sum()
            } else {
                (0..rows).map(|i| at(i, a) * at(i, b)).sum()
            }
        };
        for (a, b) in (0..rows.min(columns)).flat_map(|a| (0..=a).map(move |b| (a, b))) {
            let expected = if a == b { 32.0 } else { 0.0 };
            let found = product(a, b);
            assert!((found - expected).abs() < 1e-4, "{rows} {a} {b}: {found}");
        }
    }
    let other = Init::new(&device, Key::new(6));
    let draw = |init: Init<'_>, name| init.orthogonal(name, [4, 4], 1.0);
    assert_ne!(draw(init, "w"), draw(other, "w"));
    assert_ne!(draw(init, "w"), draw(init, "v"));
}

/// On devices with and without autodiff, there and back.
#[test]
fn a_fixed_entry_gets_no_gradient() {
    use crate::layers::sinusoid;
    use burn::module::Module;
    for device in [Device::flex(), Device::flex().autodiff()] {
        let param = Init::new(&device, Key::new(5)).fixed([1, 5, 6], sinusoid(5, 6));
        assert_eq!(param.val().into_data(), sinusoid(5, 6));
        let trained = |param: &Param<Tensor<3>>| param.val().is_require_grad();
        assert!(!trained(&param));
        assert!(!trained(&param.valid().train()));
    }
}
