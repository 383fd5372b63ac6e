//! The depthwise convolution on every device against Burn's on the CPU, output and gradients.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module};
use kvt_ops::conv2d;
use rayon::ThreadPoolBuilder;

use kvt_testing::devices::{assert_close, devices_of, tensor, values};

fn input(shape: [usize; 4], seed: usize, device: &Device) -> Tensor<4> {
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0)
        .collect();
    tensor(&data, shape, device)
}

/// Output and the gradients of x and the weight.
fn run(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    convolve: impl Fn(Tensor<4>, Tensor<4>) -> Tensor<4>,
) -> [Vec<f32>; 3] {
    let out = convolve(x.clone(), weight.clone());
    let probe = input(out.dims(), 3, &out.device());
    let grads = (out.clone() * probe).sum().backward();
    [
        values(out),
        values(x.grad(&grads).unwrap()),
        values(weight.grad(&grads).unwrap()),
    ]
}

#[test]
fn agrees_with_burns_convolution() {
    // Image, kernel, filters per channel, stride, padding: both of CvT's, PiT's, odd and even maps, rows longer than a
    // register, kernels that cover only padding, a single pixel.
    for ([height, width], kernel, filters, stride, padding) in [
        ([14, 14], 3, 1, 1, 1),
        ([14, 14], 3, 1, 2, 1),
        ([15, 9], 3, 2, 2, 1),
        ([5, 37], 3, 1, 1, 1),
        ([7, 6], 4, 3, 3, 0),
        ([1, 1], 3, 2, 2, 1),
        ([2, 3], 5, 1, 1, 4),
    ] {
        let x = |device: &Device| input([2, 3, height, width], 1, device).require_grad();
        let weight =
            |device: &Device| input([3 * filters, 1, kernel, kernel], 2, device).require_grad();
        let cpu = Device::flex().autodiff();
        let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], 3);
        let expected = run(&x(&cpu), &weight(&cpu), |x, weight| {
            module::conv2d(x, weight, None, options.clone())
        });
        // On a GPU, Burn's convolution of repeated channels: several filters, and an odd map.
        for (name, device) in devices_of(height == 15) {
            let device = device.autodiff();
            let actual = run(&x(&device), &weight(&device), |x, weight| {
                conv2d(x, weight, None, stride, padding, 3)
            });
            for (what, (a, e)) in ["out", "x", "weight"]
                .iter()
                .zip(actual.iter().zip(&expected))
            {
                let case =
                    format!("{name} {height}x{width} kernel {kernel} stride {stride}: {what}");
                assert_close(&case, a, e, 1e-5);
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let device = Device::flex().autodiff();
    let results = [1, 5].map(|threads| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let x = input([3, 7, 20, 20], 1, &device).require_grad();
            let weight = input([7, 1, 3, 3], 2, &device).require_grad();
            run(&x, &weight, |x, weight| conv2d(x, weight, None, 1, 1, 7))
        })
    });
    assert_eq!(results[0], results[1]);
}

#[test]
#[should_panic(expected = "do not fit images")]
fn a_kernel_larger_than_the_image_is_refused() {
    let device = Device::flex();
    let (x, weight) = (
        input([1, 2, 2, 2], 1, &device),
        input([2, 1, 5, 5], 2, &device),
    );
    let _ = conv2d(x, weight, None, 1, 1, 2);
}
