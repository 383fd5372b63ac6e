//! The gradient of a convolution whose output becomes the tokens after a class token: a slice of the gradient of all
//! tokens.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Tensor, module::conv2d};
use kvt_ops::{contiguous_gradient, permute_reshape};

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

/// Orders, with dimensions that join, that are of length 1, that fill no tile, and that become columns.
#[test]
fn permuted_values_and_gradients_are_those_of_burns_operations() {
    fn check<const D: usize>(shape: [usize; D], axes: [isize; D]) {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            let run = |permuted: fn(Tensor<D>, [isize; D]) -> Tensor<1>| {
                let device = Device::flex().autodiff();
                let whole: Tensor<D> = input(shape.map(|size| size + 1), 1, &device);
                let whole = whole.cast(dtype).require_grad();
                // A view that begins in the middle of its values.
                let x = whole.clone().slice(shape.map(|size| 1..size + 1));
                let out = permuted(x, axes);
                let probe = Tensor::arange(0..out.dims()[0] as i64, &device)
                    .float()
                    .cast(dtype);
                let grads = (out.clone() * probe).sum().backward();
                [out, whole.grad(&grads).unwrap().flatten(0, D - 1)].map(|x| x.into_data())
            };
            let ours = run(|x, axes| {
                let count = x.shape().num_elements();
                permute_reshape(x, axes, [count])
            });
            let burns = run(|x, axes| x.permute(axes).flatten(0, D - 1));
            assert_eq!(ours, burns, "{shape:?} {axes:?} {dtype:?}");
        }
    }
    check([33, 65], [1, 0]);
    check([3, 40, 17], [0, 2, 1]);
    check([3, 40, 17], [2, 0, 1]);
    check([2, 4, 7, 3, 7, 5], [0, 1, 3, 2, 4, 5]);
    check([2, 3, 1, 3, 4, 5], [3, 0, 1, 4, 2, 5]);
    check([2, 5, 3, 4, 6], [0, 2, 4, 3, 1]);
    check([1, 1, 1], [2, 1, 0]);
    check([2, 300, 300], [0, 2, 1]);
}
