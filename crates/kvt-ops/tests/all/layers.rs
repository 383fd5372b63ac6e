//! The fused linear layer and layer norm against Burn's, forward and gradients, on every device.

use burn::module::Param;
use burn::nn::{LayerNorm, LayerNormConfig, LinearConfig};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_ops::{
    Residual, gelu, in_type, layer_norm, linear, linear_add, linear_with, rounded_layer_norm,
    square_sum, widened,
};
use rayon::ThreadPoolBuilder;

use kvt_testing::devices::{assert_close, devices, devices_of, tensor, values};

fn input(shape: [usize; 3], seed: usize, device: &Device) -> Tensor<3> {
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect();
    tensor(&data, shape, device)
}

/// Output and the gradients of `leaves`.
fn run(x: &Tensor<3>, parameters: [Tensor<1>; 2], out: Tensor<3>) -> Vec<Vec<f32>> {
    let probe = input(out.dims(), 3, &out.device());
    let grads = (out.clone() * probe).sum().backward();
    let mut results = vec![values(out), values(x.grad(&grads).unwrap())];
    results.extend(parameters.map(|p| values(p.grad(&grads).unwrap())));
    results
}

fn compare(what: &str, actual: &[Vec<f32>], expected: &[Vec<f32>]) {
    for (name, (a, e)) in ["out", "x", "weight", "bias", "residual"]
        .iter()
        .zip(actual.iter().zip(expected))
    {
        assert_close(&format!("{what}: {name}"), a, e, 1e-5);
    }
}

#[test]
fn a_layer_norm_matches_burn() {
    // Widths that are and are not multiples of a register, more rows than parts, a single row, and values so small that
    // epsilon is half of the sum under the root.
    for (shape, size) in [
        ([2, 37, 48], 1.0),
        ([1, 1, 19], 1.0),
        ([3, 5, 7], 1.0),
        ([2, 37, 48], 1e-3),
    ] {
        type Norm = fn(&LayerNorm, Tensor<3>) -> Tensor<3>;
        let on = |device: Device, norm: Norm| {
            let device = device.autodiff();
            let mut layer = LayerNormConfig::new(shape[2])
                .with_epsilon(1e-6)
                .init(&device);
            // Parameters that differ from the initial ones.
            let shift = input([1, 1, shape[2]], 5, &device).flatten(0, 2);
            let gamma = (layer.gamma.val() + shift.clone()).detach().require_grad();
            layer.gamma = Param::from_tensor(gamma);
            layer.beta = Some(Param::from_tensor((shift * 0.5).detach().require_grad()));
            let x = (input(shape, 1, &device) * size).detach().require_grad();
            let out = norm(&layer, x.clone());
            run(&x, [layer.gamma.val(), layer.beta.unwrap().val()], out)
        };
        let expected = on(Device::flex(), |layer, x| layer.forward(x));
        // The kernels of a GPU have tests of their own for every way to read a row.
        for (name, device) in devices_of(shape == [3, 5, 7]) {
            let actual = on(device, |layer, x| layer_norm(layer, x, 1e-6));
            compare(&format!("{name} {shape:?}"), &actual, &expected);
        }
    }
}

/// Half types are summed in f32: only inputs and outputs are rounded.
#[test]
fn a_layer_norm_of_half_types_matches_f32() {
    for (name, device) in devices() {
        for (dtype, tolerance) in [(DType::F16, 2e-3), (DType::BF16, 2e-2)] {
            // WGSL has no bf16.
            if name == "wgpu" && dtype == DType::BF16 {
                kvt_testing::skipped("the GPU adapter has no BF16");
                continue;
            }
            let device = device.clone().autodiff();
            let layer = LayerNormConfig::new(48).init(&device);
            let run = |dtype: DType| {
                let half = |x: Tensor<3>| x.cast(dtype);
                let mut layer = layer.clone();
                let parameter = |x: Tensor<1>| x.cast(dtype).detach().require_grad();
                layer.gamma = Param::from_tensor(parameter(layer.gamma.val()));
                layer.beta = layer.beta.map(|p| Param::from_tensor(parameter(p.val())));
                // Values that all types represent exactly.
                let data: Vec<f32> = (0..2 * 37 * 48)
                    .map(|i| (i * 7919 % 17) as f32 * 0.25)
                    .collect();
                let x = half(tensor(&data, [2, 37, 48], &device))
                    .detach()
                    .require_grad();
                let out = layer_norm(&layer, x.clone(), 1e-5);
                assert_eq!(out.dtype(), dtype);
                let probe = half(input([2, 37, 48], 3, &device));
                let grads = (out.clone() * probe).sum().backward();
                let parameters = [layer.gamma.val(), layer.beta.unwrap().val()];
                let mut results = vec![values(out), values(x.grad(&grads).unwrap())];
                results.extend(parameters.map(|p| values(p.grad(&grads).unwrap())));
                results
            };
            let expected = run(DType::F32);
            for (what, (a, e)) in ["out", "x", "gamma", "beta"]
                .iter()
                .zip(run(dtype).iter().zip(&expected))
            {
                assert_close(&format!("{name} {dtype:?} {what}"), a, e, tolerance);
            }
        }
    }
}

/// The norm, and the gradients, are those of a cast behind it, bit by bit, with more rows than are normalised together.
#[test]
fn a_layer_norm_is_rounded_as_it_is_written() {
    for (name, device) in devices() {
        for dtype in [DType::F16, DType::BF16] {
            if name == "wgpu" && dtype == DType::BF16 {
                kvt_testing::skipped("the GPU adapter has no BF16");
                continue;
            }
            let device = device.clone().autodiff();
            let layer = LayerNormConfig::new(19).with_epsilon(1e-6).init(&device);
            let x = input([5, 70, 19], 1, &device).require_grad();
            let run = |out: Tensor<3>| {
                assert_eq!(out.dtype(), dtype);
                let out = widened(out);
                let grads = (out.clone() * input([5, 70, 19], 2, &device))
                    .sum()
                    .backward();
                let [gamma, beta] = [layer.gamma.val(), layer.beta.clone().unwrap().val()];
                let parameters = [gamma, beta].map(|p| values(p.grad(&grads).unwrap()));
                (values(out), values(x.grad(&grads).unwrap()), parameters)
            };
            let exact = layer_norm(&layer, x.clone(), 1e-6);
            let theirs = layer.forward(x.clone());
            assert_close(name, &values(exact.clone()), &values(theirs), 1e-4);
            let rounded = rounded_layer_norm(&layer, x.clone(), 1e-6, dtype);
            assert_eq!(run(rounded), run(in_type(exact, dtype)), "{name} {dtype:?}");
        }
    }
}

#[test]
fn a_linear_layer_matches_burn() {
    for ([batch, tokens, inputs], outputs) in [([2, 37, 24], 40), ([1, 1, 5], 3), ([4, 50, 17], 1)]
    {
        for (name, device) in devices_of(tokens == 37) {
            let device = device.autodiff();
            let layer = LinearConfig::new(inputs, outputs).init(&device);
            let run = |out: Tensor<3>, x: Tensor<3>| {
                let probe = input(out.dims(), 3, &device);
                let grads = (out.clone() * probe).sum().backward();
                vec![
                    values(out),
                    values(x.grad(&grads).unwrap()),
                    values(layer.weight.val().grad(&grads).unwrap()),
                    values(layer.bias.as_ref().unwrap().val().grad(&grads).unwrap()),
                ]
            };
            let x = || input([batch, tokens, inputs], 1, &device).require_grad();
            let (a, b) = (x(), x());
            let actual = run(linear(&layer, a.clone()), a);
            let expected = run(layer.forward(b.clone()), b);
            compare(
                &format!("{name} {batch} {tokens} {inputs}"),
                &actual,
                &expected,
            );
        }
    }
}

/// As that of a convolution of pixels, whose transpose multiplies tokens.
#[test]
fn a_weight_stored_by_column_gives_the_same_output_and_gradients() {
    let device = Device::flex().autodiff();
    // More and fewer outputs than inputs, enough rows for a packed weight, and too few.
    for (shape, outputs) in [
        ([2, 37, 48], 33),
        ([2, 700, 5], 40),
        ([1, 3, 19], 7),
        ([1, 30, 1], 1),
    ] {
        let run = |by_column: bool| {
            let x = input(shape, 1, &device).require_grad();
            let turn = |x: Tensor<2>| if by_column { x.transpose() } else { x };
            let weight: Tensor<2> = input([1, shape[2], outputs], 2, &device).squeeze_dim(0);
            let weight = turn(weight);
            let stored = tensor(&values(weight.clone()), weight.dims(), &device).require_grad();
            let bias: Tensor<1> = tensor(&vec![0.5; outputs], [outputs], &device).require_grad();
            let out = linear_with(x.clone(), turn(stored.clone()), Some(bias.clone()));
            let probe = input(out.dims(), 3, &device);
            let grads = (out.clone() * probe).sum().backward();
            let of_weight = turn(stored.grad(&grads).unwrap());
            vec![
                values(out),
                values(x.grad(&grads).unwrap()),
                values(of_weight),
                values(bias.grad(&grads).unwrap()),
            ]
        };
        compare(&format!("{shape:?}"), &run(true), &run(false));
    }
}

#[test]
fn a_linear_layer_added_to_a_residual_matches_burn() {
    for (rows, inputs, outputs) in [(37, 24, 40), (1, 5, 3), (50, 17, 1)] {
        for (name, device) in devices_of(rows == 37) {
            let device = device.autodiff();
            let layer = LinearConfig::new(inputs, outputs).init(&device);
            let (x, residual) = (
                input([2, rows, inputs], 1, &device).require_grad(),
                input([2, rows, outputs], 5, &device).require_grad(),
            );
            let run = |out: Tensor<3>| {
                let probe = input(out.dims(), 3, &device);
                // The residual has other uses, as in a block.
                let loss = (out.clone() * probe).sum() + (residual.clone() * 0.5).sum();
                let grads = loss.backward();
                vec![
                    values(out),
                    values(x.grad(&grads).unwrap()),
                    values(layer.weight.val().grad(&grads).unwrap()),
                    values(layer.bias.as_ref().unwrap().val().grad(&grads).unwrap()),
                    values(residual.grad(&grads).unwrap()),
                ]
            };
            let actual = run(linear_add(&layer, x.clone(), residual.clone()));
            let expected = run(residual.clone() + layer.forward(x.clone()));
            compare(&format!("{name} {rows} {inputs}"), &actual, &expected);
        }
    }
}

/// A branch scaled sample by sample, by itself and after a linear layer, compared with Burn's cast, product and sum. A sample has one
/// value, one block or several blocks; and one sample is dropped.
#[test]
fn a_scaled_branch_added_to_a_residual_matches_burn() {
    for (samples, rows, inputs, outputs) in [(3, 1, 5, 1), (2, 37, 24, 40), (3, 500, 8, 96)] {
        // Blocks matter only on the CPU.
        for (name, device) in devices_of(rows == 37) {
            let device = device.autodiff();
            let layer = LinearConfig::new(inputs, outputs).init(&device);
            let x = input([samples, rows, inputs], 1, &device).require_grad();
            let stream = input([samples, rows, outputs], 5, &device).require_grad();
            let scale: Vec<f32> = (0..samples).map(|i| 1.25 * i as f32).collect();
            let scale = Tensor::<1>::from_data(TensorData::new(scale, [samples]), &device);
            let run = |out: Tensor<3>| {
                let probe = input(out.dims(), 3, &device);
                let loss = (out.clone() * probe).sum() + (stream.clone() * 0.5).sum();
                let grads = loss.backward();
                vec![
                    values(out),
                    values(x.grad(&grads).unwrap()),
                    values(layer.weight.val().grad(&grads).unwrap()),
                    values(layer.bias.as_ref().unwrap().val().grad(&grads).unwrap()),
                    values(stream.grad(&grads).unwrap()),
                ]
            };
            let residual = || Residual::scaled(stream.clone(), scale.clone());
            let one_step = run(linear_add(&layer, x.clone(), residual()));
            let two_steps = run(residual().plus(linear(&layer, x.clone())));
            let branch = layer.forward(x.clone()) * scale.clone().reshape([samples, 1, 1]);
            let expected = run(stream.clone() + branch);
            let place = format!("{name} {samples} {rows}");
            compare(&format!("{place}, one step"), &one_step, &expected);
            compare(&format!("{place}, two steps"), &two_steps, &expected);
        }
    }
}

#[test]
#[should_panic(expected = "samples and their scales")]
fn a_scale_for_another_number_of_samples_is_refused() {
    let device = Device::flex();
    let layer = LinearConfig::new(4, 3).init(&device);
    let (x, stream) = (input([2, 5, 4], 1, &device), input([2, 5, 3], 2, &device));
    let residual = Residual::scaled(stream, Tensor::ones([3], &device));
    let _ = linear_add(&layer, x, residual);
}

/// Sums over the rows are split into the same parts for any number of threads.
#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let device = Device::flex().autodiff();
    let norm = LayerNormConfig::new(24).init(&device);
    let layer = LinearConfig::new(24, 40).init(&device);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let x = input([5, 700, 24], 1, &device).require_grad();
            let out = linear(&layer, gelu(layer_norm(&norm, x.clone(), 1e-6)));
            let grads = (out.clone() * input([5, 700, 40], 3, &device))
                .sum()
                .backward();
            let mut all = vec![values(out), values(x.grad(&grads).unwrap())];
            all.push(values(norm.gamma.val().grad(&grads).unwrap()));
            all.push(values(layer.weight.val().grad(&grads).unwrap()));
            all.push(values(
                layer.bias.as_ref().unwrap().val().grad(&grads).unwrap(),
            ));
            all.push(values(square_sum(x.inner().flatten(0, 2))));
            all
        })
    };
    assert_eq!(run(1), run(5));
}

/// A residual of one row is broadcast, as in Burn, and not overwritten.
#[test]
fn a_residual_of_another_shape_is_broadcast() {
    let device = Device::flex();
    let layer = LinearConfig::new(4, 3).init(&device);
    let (x, row) = (input([2, 5, 4], 1, &device), input([1, 1, 3], 2, &device));
    let actual = values(linear_add(&layer, x.clone(), row.clone()));
    assert_close("broadcast", &actual, &values(layer.forward(x) + row), 1e-6);
}

/// Burn rejects a shape that does not match.
#[test]
#[should_panic(expected = "inner dimensions must match")]
fn an_input_of_another_width_is_refused() {
    let device = Device::flex();
    let layer = LinearConfig::new(4, 3).init(&device);
    let _ = linear(&layer, Tensor::<2>::ones([2, 6], &device));
}

#[test]
#[should_panic(expected = "assert_shape")]
fn a_norm_of_another_width_is_refused() {
    let device = Device::flex();
    let layer = LayerNormConfig::new(3).init(&device);
    let _ = layer_norm(&layer, Tensor::<2>::ones([2, 6], &device), 1e-6);
}
