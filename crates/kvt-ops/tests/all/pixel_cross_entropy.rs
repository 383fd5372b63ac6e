//! The cross-entropy of pixels against its definition in double precision, on every device.

use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_ops::{PixelAverage, pixel_cross_entropy};
use kvt_testing::devices::{assert_close, devices, devices_of, tensor, values};

const IGNORE: i64 = 255;

/// Numbers in no order around `offset`.
fn numbers(count: usize, offset: f32) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 7919 % 2003) as f32 / 250.0 - 4.0 + offset)
        .collect()
}

/// Classes in no order; about a third of the pixels have none, or all.
fn labels(count: usize, classes: usize, none: bool) -> Vec<i64> {
    let label = |i: usize| match i * 31 % 97 % 3 {
        0 => IGNORE,
        _ if none => IGNORE,
        _ => (i * 7 % classes) as i64,
    };
    (0..count).map(label).collect()
}

fn int(labels: &[i64], shape: [usize; 3], device: &Device) -> Tensor<3, Int> {
    Tensor::from_data(TensorData::new(labels.to_vec(), shape), device)
}

/// Loss and gradient of the logits.
fn defined(
    logits: &[f32],
    [batch, classes, pixels]: [usize; 3],
    labels: &[i64],
    average: PixelAverage,
) -> (f32, Vec<f32>) {
    let valid = labels.iter().filter(|label| **label != IGNORE).count();
    let count = match average {
        PixelAverage::All => batch * pixels,
        PixelAverage::Valid => valid.max(1),
    } as f64;
    let (mut loss, mut grad) = (0.0, vec![0.0; logits.len()]);
    for (place, label) in labels.iter().enumerate() {
        if *label == IGNORE {
            continue;
        }
        let at = |class: usize| (place / pixels * classes + class) * pixels + place % pixels;
        let x = |class: usize| f64::from(logits[at(class)]);
        let sum: f64 = (0..classes).map(|class| x(class).exp()).sum();
        loss += (sum.ln() - x(*label as usize)) / count;
        for class in 0..classes {
            let hot = f64::from(u8::from(class as i64 == *label));
            grad[at(class)] = ((x(class).exp() / sum - hot) / count) as f32;
        }
    }
    (loss as f32, grad)
}

fn run(
    logits: &[f32],
    [batch, classes, height, width]: [usize; 4],
    labels: &[i64],
    average: PixelAverage,
    device: &Device,
) -> (f32, Vec<f32>) {
    let leaf = tensor(logits, [batch, classes, height, width], device).require_grad();
    let labels = int(labels, [batch, height, width], device);
    let loss = pixel_cross_entropy(leaf.clone(), labels, IGNORE, average);
    // A factor, as that of an auxiliary loss.
    let grads = (loss.clone() * 3.0).backward();
    let grad = leaf.grad(&grads).unwrap() / 3.0;
    (values(loss)[0], values(grad))
}

#[test]
fn losses_and_gradients_match_the_definition() {
    // Pixels that are and are not multiples of a lane, more than a block of them, one class, and large logits.
    for (shape, offset) in [
        ([2, 3, 4, 8], 0.0),
        ([1, 5, 3, 7], 100.0),
        ([3, 2, 37, 41], -50.0),
        ([2, 1, 2, 2], 0.0),
    ] {
        let [batch, classes, height, width] = shape;
        let pixels = height * width;
        let logits = numbers(batch * classes * pixels, offset);
        for none in [false, true] {
            let labels = labels(batch * pixels, classes, none);
            for average in [PixelAverage::All, PixelAverage::Valid] {
                let expected = defined(&logits, [batch, classes, pixels], &labels, average);
                // On a GPU, Burn's operations: large logits, by both averages.
                let few = offset > 0.0 && none == (average == PixelAverage::Valid);
                for (name, device) in devices_of(few) {
                    let actual = run(&logits, shape, &labels, average, &device.autodiff());
                    let case = format!("{name} {shape:?} {average:?} none {none}");
                    assert!((actual.0 - expected.0).abs() < 2e-5, "{case}: {}", actual.0);
                    assert_close(&case, &actual.1, &expected.1, 2e-5);
                }
            }
        }
    }
}

/// By finite differences, on the CPU.
#[test]
fn a_gradient_is_the_slope_of_the_loss() {
    let shape = [1, 3, 2, 2];
    let (logits, labels) = (numbers(12, 0.0), [0, 2, IGNORE, 1]);
    let device = Device::flex().autodiff();
    let loss = |logits: &[f32]| run(logits, shape, &labels, PixelAverage::All, &device);
    let grad = loss(&logits).1;
    for (i, grad) in grad.iter().enumerate() {
        let moved = |by: f32| {
            let mut logits = logits.clone();
            logits[i] += by;
            loss(&logits).0
        };
        let slope = (moved(0.05) - moved(-0.05)) / 0.1;
        assert!((slope - grad).abs() < 1e-3, "{i}: {grad}, but {slope}");
    }
}

#[test]
fn an_unknown_label_and_a_nan_are_not_hidden() {
    for (name, device) in devices() {
        let device = device.autodiff();
        for label in [3, -1, 254] {
            let (loss, _) = run(
                &[0.5; 6],
                [1, 3, 1, 2],
                &[0, label],
                PixelAverage::All,
                &device,
            );
            assert!(loss.is_nan(), "{name} {label}: {loss}");
        }
        let mut nan = [0.0; 6];
        nan[0] = f32::NAN;
        let loss = |labels: &[i64]| {
            let (loss, _) = run(&nan, [1, 3, 1, 2], labels, PixelAverage::All, &device);
            loss
        };
        assert!(loss(&[1, 0]).is_nan(), "{name}");
        // Of a pixel without a class it does not matter: half of ln 3.
        let other = loss(&[IGNORE, 0]);
        assert!((other - 0.5 * 3f32.ln()).abs() < 1e-6, "{name}: {other}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let shape = [2, 3, 45, 50];
    let (logits, labels) = (numbers(2 * 3 * 2250, 0.0), labels(2 * 2250, 3, false));
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let device = Device::flex().autodiff();
        pool.unwrap()
            .install(|| run(&logits, shape, &labels, PixelAverage::Valid, &device))
    };
    assert_eq!(run(1), run(3));
}

#[test]
#[should_panic(expected = "do not fit labels of shape [1, 2, 3]")]
fn labels_of_another_size_are_refused() {
    let device = Device::flex();
    let logits = tensor(&[0.0; 12], [1, 3, 2, 2], &device);
    let labels = int(&[0; 6], [1, 2, 3], &device);
    pixel_cross_entropy(logits, labels, IGNORE, PixelAverage::All);
}
