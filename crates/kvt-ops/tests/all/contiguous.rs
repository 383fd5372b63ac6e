//! The gradient of a convolution whose output becomes the tokens after a class token: a slice of the gradient of all
//! tokens.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module::conv2d};
use kvt_ops::contiguous_gradient;

use kvt_testing::devices::{assert_close, gpu, tensor, values};

fn input<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0)
        .collect();
    tensor(&data, shape, device)
}

/// The gradient of the weight. That of the images would read the same copy, and a software driver would compile kernels for it too.
fn run(device: &Device) -> Vec<f32> {
    let device = device.clone().autodiff();
    // At this size, the tuner chooses `wgrad_im2col` on a software driver, whose result is wrong for a slice.
    let x = input([4, 64, 16, 16], 1, &device);
    let weight = input([128, 64, 3, 3], 2, &device).require_grad();
    let options = ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
    let map = contiguous_gradient(conv2d(x, weight.clone(), None, options));
    let tokens = map.reshape([4, 128, 64]).swap_dims(1, 2);
    let class = Tensor::<3>::zeros([4, 1, 128], &device);
    let tokens = Tensor::cat(vec![class, tokens], 1);
    let probe = input([4, 65, 128], 3, &device);
    let grads = (tokens * probe).sum().backward();
    values(weight.grad(&grads).unwrap())
}

#[test]
fn a_gradient_that_is_a_slice_is_read_correctly() {
    let expected = run(&Device::flex());
    if let Some((name, device)) = gpu() {
        assert_close(name, &run(&device), &expected, 1e-5);
    }
}
