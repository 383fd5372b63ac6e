#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use burn::tensor::{DType, Device, TensorData};
use kvt_ops::{Collective, Key, Phase, with_group};
use kvt_testing::ranks::{Rank, in_threads};

use super::*;
use crate::layers::{BatchNorm, BatchNormSettings, Init};

const CHANNELS: usize = 3;
/// Values of a channel of an image.
const PIXELS: usize = 4;

#[derive(Debug)]
struct Threads(Rank);

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.0.rank
    }

    fn size(&self) -> usize {
        self.0.size
    }

    fn sum(&self, values: &mut [f32]) {
        self.0.sum(values);
    }
}

/// Some images from the `from`-th on; their mean is far from 0.
fn images(from: usize, count: usize, device: &Device) -> Tensor<4> {
    let of_image = CHANNELS * PIXELS;
    let values = (from * of_image..(from + count) * of_image)
        .map(|i| (i * 37 % 23) as f32 / 4.0 + 10.0)
        .collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [count, CHANNELS, 2, 2]), device)
}

/// Takes two steps, each with a loss that is a sum over the images and that no symmetry makes 0. Returns output and
/// input gradient of the last step, gradients of weight and bias, and running statistics. With `follows`, a residual and a
/// ReLU follow the norm.
fn train(from: usize, count: usize, all: usize, dtype: DType, follows: bool) -> [Vec<f32>; 6] {
    let device = Device::flex().autodiff();
    let norm: BatchNorm =
        Init::new(&device, Key::new(1)).batch_norm(CHANNELS, BatchNormSettings::default());
    let values = |x: Tensor<1>| {
        let data = x.into_data().convert::<f32>();
        data.try_to_vec::<f32>().unwrap()
    };
    let flat = |x: Tensor<4>| values(x.flatten(0, 3));
    let mut last = None;
    for step in 0..2 {
        let x = images(step * all + from, count, &device)
            .cast(dtype)
            .require_grad();
        let phase = Phase::Train(Key::new(0));
        let output = if follows {
            let residual = (x.clone() - 12.0) * 0.5;
            norm.forward_add_relu(x.clone(), residual, phase)
        } else {
            norm.forward(x.clone(), phase)
        };
        assert_eq!(output.dtype(), dtype);
        let output = output.cast(DType::F32);
        let towards = images(7 + step * all + from, count, &device).inner();
        let loss = (output.clone() * Tensor::from_inner(towards))
            .square()
            .sum();
        let gradients = loss.backward();
        let of = |param: &burn::module::Param<Tensor<1>>| values(param.grad(&gradients).unwrap());
        last = Some([
            flat(output.inner()),
            flat(x.grad(&gradients).unwrap()),
            of(&norm.weight),
            of(&norm.bias),
        ]);
    }
    let [output, input, weight, bias] = last.unwrap();
    let running = [&norm.running_mean, &norm.running_var].map(|state| values(state.value()));
    let [mean, var] = running;
    [output, input, weight, bias, mean, var]
}

#[track_caller]
fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0f32, |max, x| max.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs() / scale;
        assert!(error < tolerance, "{what}: {found}, not {expected}");
    }
}

/// Processes with 1, 2 and 3 images are equivalent to one with 6.
#[test]
fn joint_statistics_are_those_of_one_large_batch() {
    joint(DType::F32, 2e-6, false);
    joint(DType::F32, 2e-6, true);
}

/// Input and output are rounded to eight bits. The statistics of the rounded input are f32, and do not depend on its
/// division.
#[test]
fn joint_statistics_of_half_types_are_f32() {
    joint(DType::BF16, 8e-3, false);
}

/// Output and gradients are compared with `tolerance`, running statistics as numbers of f32 whatever the type.
fn joint(dtype: DType, tolerance: f32, follows: bool) {
    let whole = train(0, 6, 6, dtype, follows);
    let parts = in_threads(3, |rank| {
        let own = (rank.rank * (rank.rank + 1) / 2, rank.rank + 1);
        let group = Group::new(Arc::new(Threads(rank)), true);
        with_group(Some(group), || train(own.0, own.1, 6, dtype, follows))
    });
    // Values of images are divided among the processes; the gradients of parameters are sums over the processes.
    for (part, what) in ["output", "gradient of the input"].iter().enumerate() {
        let found: Vec<f32> = parts.iter().flat_map(|of| of[part].clone()).collect();
        assert_close(what, &found, &whole[part], tolerance);
    }
    for (part, what) in [(2, "gradient of the weight"), (3, "gradient of the bias")] {
        let mut found = vec![0.0; CHANNELS];
        for of in &parts {
            found
                .iter_mut()
                .zip(&of[part])
                .for_each(|(sum, x)| *sum += x);
        }
        assert_close(what, &found, &whole[part], tolerance);
    }
    for (part, what) in [(4, "running mean"), (5, "running variance")] {
        for of in &parts {
            assert_close(what, &of[part], &whole[part], 2e-6);
        }
    }
}

/// Without joint statistics, two processes equal one that takes their batches in turn, bit for bit.
#[test]
fn own_statistics_run_in_the_order_of_the_processes() {
    let device = Device::flex();
    let norm = || -> BatchNorm {
        Init::new(&device, Key::new(1)).batch_norm(CHANNELS, BatchNormSettings::default())
    };
    let phase = Phase::Train(Key::new(0));
    let running = |norm: &BatchNorm| {
        [&norm.running_mean, &norm.running_var]
            .map(|state| state.value().into_data().try_to_vec::<f32>().unwrap())
    };
    let alone = norm();
    let mut outputs = Vec::new();
    for batch in 0..4 {
        outputs.push(
            alone
                .forward(images(2 * batch, 2, &device), phase)
                .into_data(),
        );
    }
    let shared = in_threads(2, |rank| {
        let own = rank.rank;
        let group = Group::new(Arc::new(Threads(rank)), false);
        let norm = norm();
        for turn in 0..2 {
            let batch = 2 * turn + own;
            let output = with_group(Some(group.clone()), || {
                norm.forward(images(2 * batch, 2, &device), phase)
            });
            assert_eq!(output.into_data(), outputs[batch]);
        }
        running(&norm)
    });
    for found in shared {
        assert_eq!(found, running(&alone));
    }
}
