//! The MLP in one operation: compared with Burn's layers, and with our own operations one after the other.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::gelu as burn_gelu;
use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{gelu, in_type, linear, linear_add, mlp_add};
use kvt_testing::devices::{assert_close, devices_of, tensor, values};
use kvt_testing::naive::draw;
use rayon::ThreadPoolBuilder;

/// Inputs, hidden values and outputs.
const SIZES: [usize; 3] = [21, 50, 19];

fn numbers(seed: u64, shape: [usize; 3], device: &Device) -> Tensor<3> {
    let data = draw(seed, shape.iter().product(), 1001, 0.004);
    tensor(&data, shape, device)
}

fn layers(device: &Device) -> [Linear; 2] {
    let [inputs, hidden, outputs] = SIZES;
    [
        LinearConfig::new(inputs, hidden).init(device),
        LinearConfig::new(hidden, outputs).init(device),
    ]
}

/// Branch input and residual.
fn given(rows: usize, device: &Device) -> [Tensor<3>; 2] {
    [(1, SIZES[0]), (2, SIZES[2])].map(|(seed, width)| numbers(seed, [2, rows, width], device))
}

/// In training and in evaluation: one row per image, less than one block, and several blocks.
#[test]
fn an_mlp_matches_burn_and_its_gradients_reach_every_layer() {
    for rows in [1, 37, 700] {
        // Blocks matter only on the CPU.
        for (name, device) in devices_of(rows == 37) {
            let training = device.clone().autodiff();
            let [first, second] = layers(&training);
            let [x, residual] = given(rows, &training).map(Tensor::require_grad);
            let run = |out: Tensor<3>| {
                let probe = numbers(3, out.dims(), &training);
                let grads = (out.clone() * probe).sum().backward();
                let weights = [&first, &second].map(|layer| layer.weight.val());
                let mut all = vec![values(out.inner())];
                all.extend([&x, &residual].map(|x| values(x.grad(&grads).unwrap())));
                all.extend(weights.map(|weight| values(weight.grad(&grads).unwrap())));
                all
            };
            let ours = run(mlp_add([&first, &second], x.clone(), residual.clone()));
            // On a GPU, Burn's gradient is that of the approximation with tanh.
            let activation = if name == "flex" { burn_gelu } else { gelu };
            let hidden = activation(first.forward(x.clone()));
            let theirs = run(residual.clone() + second.forward(hidden));
            for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                assert_close(&format!("{name} {rows}: {number}"), ours, theirs, 1e-4);
            }
            // A GPU runs the same operations in evaluation.
            if name == "flex" {
                let [first, second] = [first, second].map(|layer| layer.valid());
                let [x, residual] = [x, residual].map(Tensor::inner);
                let alone = values(mlp_add([&first, &second], x, residual));
                assert_eq!(alone, ours[0], "{rows} rows");
            }
        }
    }
}

/// In bf16, with weights and residual in f32, each step is rounded as by itself.
#[test]
fn an_mlp_in_bf16_is_its_steps_bit_by_bit() {
    let device = Device::flex();
    let [first, second] = layers(&device);
    for rows in [1, 37, 700] {
        let [x, residual] = given(rows, &device);
        let x = in_type(x, DType::BF16);
        let hidden = gelu(linear(&first, x.clone()));
        let steps = linear_add(&second, hidden, residual.clone());
        let out = mlp_add([&first, &second], x, residual);
        assert_eq!(out.dtype(), DType::F32);
        assert_eq!(values(out), values(steps), "{rows} rows");
    }
}

/// As by itself, a layer whose bias has another width than its weight is refused, in each of the layers and types.
#[test]
fn biases_of_another_width_are_refused() {
    let device = Device::flex();
    for (layer, dtype) in [(0, DType::F32), (1, DType::F32), (1, DType::BF16)] {
        let refused = std::panic::catch_unwind(|| {
            let mut both = layers(&device);
            let wide = 2 * both[layer].weight.dims()[1];
            both[layer].bias = Some(Param::from_tensor(Tensor::ones([wide], &device)));
            let [x, residual] = given(3, &device);
            mlp_add([&both[0], &both[1]], in_type(x, dtype), residual).into_data()
        });
        assert!(refused.is_err(), "layer {layer} in {dtype:?}");
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let device = Device::flex();
    let [first, second] = layers(&device);
    let run = |threads, dtype| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let [x, residual] = given(500, &device);
            values(mlp_add([&first, &second], in_type(x, dtype), residual))
        })
    };
    for dtype in [DType::F32, DType::BF16] {
        assert_eq!(run(1, dtype), run(5, dtype));
    }
}

/// A residual that is broadcast is not one step, and neither are layers without a bias.
#[test]
fn other_residuals_and_layers_have_the_result_of_their_steps() {
    let device = Device::flex();
    let [inputs, hidden, _] = SIZES;
    let [first, second] = layers(&device);
    let bare = LinearConfig::new(inputs, hidden)
        .with_bias(false)
        .init(&device);
    let [x, residual] = given(5, &device);
    let row = residual.clone().narrow(0, 0, 1).narrow(1, 0, 1);
    for (first, residual) in [(&first, row), (&bare, residual)] {
        let steps = linear_add(&second, gelu(linear(first, x.clone())), residual.clone());
        let out = mlp_add([first, &second], x.clone(), residual);
        assert_eq!(values(out), values(steps));
    }
}
