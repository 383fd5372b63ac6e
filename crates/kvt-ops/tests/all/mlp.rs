//! The MLP in one operation: compared with Burn's layers, and with our own operations one after the other.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{gelu as burn_gelu, sigmoid};
use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{Gelu, Residual, gelu, in_type, linear, linear_add, mlp, quick_gelu, widened};
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

/// The output of an MLP with an exact GELU, added to a residual.
fn exact([first, second]: [&Linear; 2], x: Tensor<3>, residual: Tensor<3>) -> Tensor<3> {
    mlp([first, second], Gelu::Exact, x, Some(residual.into()))
}

/// How the branch of an MLP goes on.
#[derive(Clone, Copy)]
enum End {
    Alone,
    Added,
    Scaled,
}

/// In training and in evaluation: one row per image, less than one block, several blocks, and several parts of a sum.
#[test]
fn an_mlp_matches_burn_and_its_gradients_reach_every_layer() {
    let cases = [
        (1, Gelu::Exact, End::Added),
        (37, Gelu::Exact, End::Added),
        (38, Gelu::Quick, End::Alone),
        (700, Gelu::Exact, End::Scaled),
        (700, Gelu::Quick, End::Added),
        (900, Gelu::Exact, End::Alone),
    ];
    for (rows, curve, end) in cases {
        // Blocks matter only on the CPU.
        for (name, device) in devices_of(rows == 37) {
            let training = device.clone().autodiff();
            let [first, second] = layers(&training);
            let [x, residual] = given(rows, &training).map(Tensor::require_grad);
            let scale = tensor(&[0.5, 2.0], [2], &training);
            let ended = |branch: Tensor<3>| match end {
                End::Alone => branch,
                End::Added => residual.clone() + branch,
                End::Scaled => residual.clone() + branch * scale.clone().reshape([2, 1, 1]),
            };
            let run = |out: Tensor<3>| {
                let probe = numbers(3, out.dims(), &training);
                let grads = (out.clone() * probe).sum().backward();
                let mut all = vec![values(out.inner()), values(x.grad(&grads).unwrap())];
                all.extend(residual.grad(&grads).map(values));
                for layer in [&first, &second] {
                    all.push(values(layer.weight.val().grad(&grads).unwrap()));
                    all.push(values(
                        layer.bias.as_ref().unwrap().val().grad(&grads).unwrap(),
                    ));
                }
                all
            };
            let residual_of = |residual: &Tensor<3>, scale: &Tensor<1>| match end {
                End::Alone => None,
                End::Added => Some(residual.clone().into()),
                End::Scaled => Some(Residual::scaled(residual.clone(), scale.clone())),
            };
            let given = residual_of(&residual, &scale);
            let ours = run(mlp([&first, &second], curve, x.clone(), given));
            let hidden = first.forward(x.clone());
            let hidden = match (curve, name) {
                // On a GPU, Burn's gradient is that of the approximation with tanh.
                (Gelu::Exact, "flex") => burn_gelu(hidden),
                (Gelu::Exact, _) => gelu(hidden),
                (Gelu::Quick, _) => sigmoid(hidden.clone() * 1.702) * hidden,
            };
            let theirs = run(ended(second.forward(hidden)));
            assert_eq!(ours.len(), theirs.len());
            for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                let what = format!("{name} {rows} {curve:?}: {number}");
                assert_close(&what, ours, theirs, 1e-4);
            }
            // A GPU runs the same operations in evaluation.
            if name == "flex" {
                let [first, second] = [first.clone(), second.clone()].map(|layer| layer.valid());
                let given = residual_of(&residual.clone().inner(), &scale.clone().inner());
                let alone = values(mlp([&first, &second], curve, x.clone().inner(), given));
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
        let out = exact([&first, &second], x, residual);
        assert_eq!(out.dtype(), DType::F32);
        assert_eq!(values(out), values(steps), "{rows} rows");
    }
}

/// In training, too, whichever layers are trained; an output that is not added to a residual is in bf16.
#[test]
fn gradients_in_bf16_are_those_of_the_steps_bit_by_bit() {
    let device = Device::flex().autodiff();
    let cases = [
        (1, Gelu::Exact, End::Added),
        (37, Gelu::Quick, End::Alone),
        (700, Gelu::Exact, End::Alone),
        (700, Gelu::Quick, End::Added),
    ];
    for (rows, curve, end) in cases {
        for frozen in [[false; 2], [true, false], [false, true]] {
            let [first, second] = layers(&device);
            let freeze = |layer: Linear, frozen| if frozen { layer.no_grad() } else { layer };
            let (first, second) = (freeze(first, frozen[0]), freeze(second, frozen[1]));
            let [x, residual] = given(rows, &device);
            let x = in_type(x, DType::BF16).detach().require_grad();
            let residual = residual.require_grad();
            let run = |out: Tensor<3>| {
                let out = widened(out);
                let grads = (out.clone() * numbers(3, out.dims(), &device))
                    .sum()
                    .backward();
                let mut all = vec![Some(values(out))];
                let of_x = x.grad(&grads).unwrap();
                all.push(Some(values(in_type(of_x, DType::F32))));
                all.push(residual.grad(&grads).map(values));
                for layer in [&first, &second] {
                    let bias = layer.bias.as_ref().unwrap().val();
                    all.push(layer.weight.val().grad(&grads).map(values));
                    all.push(bias.grad(&grads).map(values));
                }
                all
            };
            let hidden = linear(&first, x.clone());
            let inner = match curve {
                Gelu::Exact => gelu(hidden),
                Gelu::Quick => quick_gelu(hidden),
            };
            let (steps, given) = match end {
                End::Alone => (linear(&second, inner), None),
                _ => {
                    let steps = linear_add(&second, inner, residual.clone());
                    (steps, Some(residual.clone().into()))
                }
            };
            let ours = mlp([&first, &second], curve, x.clone(), given);
            assert_eq!(ours.dtype(), steps.dtype());
            assert_eq!(run(ours), run(steps), "{rows} {curve:?} {frozen:?}");
        }
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
            exact([&both[0], &both[1]], in_type(x, dtype), residual).into_data()
        });
        assert!(refused.is_err(), "layer {layer} in {dtype:?}");
    }
}

/// In training and in evaluation, with fewer threads than parts of a sum, and with more.
#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let device = Device::flex();
    let [first, second] = layers(&device.clone().autodiff());
    let run = |threads, dtype| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let [x, residual] = given(900, &device.clone().autodiff());
            let (x, layers) = (in_type(x, dtype).require_grad(), [&first, &second]);
            let out = exact(layers, x.clone(), residual);
            let grads = (out.clone() * out.clone()).sum().backward();
            let weights = layers.map(|layer| values(layer.weight.val().grad(&grads).unwrap()));
            let of_x = values(in_type(x.grad(&grads).unwrap(), DType::F32));
            (values(out.inner()), of_x, weights)
        })
    };
    for dtype in [DType::F32, DType::BF16] {
        assert_eq!(run(1, dtype), run(5, dtype));
    }
}

/// Layers that are not trained, as beside factors of low rank, get no gradient, and what comes before them gets the same one.
#[test]
fn frozen_layers_pass_a_gradient_on() {
    let device = Device::flex().autodiff();
    let trained = layers(&device);
    let [x, residual] = given(40, &device).map(Tensor::require_grad);
    let run = |[first, second]: &[Linear; 2]| {
        let out = exact([first, second], x.clone(), residual.clone());
        let grads = (out.clone() * out).sum().backward();
        let weights = [first, second].map(|layer| layer.weight.val().grad(&grads).is_some());
        (weights, values(x.grad(&grads).unwrap()))
    };
    let (weights, all) = run(&trained);
    assert_eq!(weights, [true; 2]);
    let (weights, alone) = run(&trained.map(Module::no_grad));
    assert_eq!(weights, [false; 2]);
    assert_eq!(all, alone);
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
        let out = exact([first, &second], x.clone(), residual);
        assert_eq!(values(out), values(steps));
    }
}
