//! The convolution of images against sums by definition in f64 and Burn's convolution, output and gradients.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module};
use kvt_ops::conv2d;
use rayon::ThreadPoolBuilder;

use kvt_testing::devices::{assert_close, devices, tensor, values};

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    /// Height and width.
    size: [usize; 2],
    /// Channels per group: input and output.
    channels: [usize; 2],
    groups: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

const fn case(
    batch: usize,
    size: [usize; 2],
    channels: [usize; 2],
    groups: usize,
    [kernel, stride, padding]: [usize; 3],
) -> Case {
    Case {
        batch,
        size,
        channels,
        groups,
        kernel,
        stride,
        padding,
    }
}

const CASES: [Case; 21] = [
    // A stem, groups of 3 x 3, single pixels of large and small maps, with stride and padding.
    case(2, [32, 32], [3, 8], 1, [7, 2, 3]),
    case(3, [28, 28], [4, 6], 2, [3, 1, 1]),
    case(2, [20, 17], [5, 7], 1, [1, 1, 0]),
    case(2, [20, 17], [5, 7], 3, [1, 1, 0]),
    case(9, [4, 5], [5, 7], 2, [1, 1, 0]),
    case(3, [9, 8], [3, 4], 1, [1, 2, 0]),
    case(2, [5, 4], [3, 2], 1, [1, 1, 1]),
    // Several images in a product, with a shorter last block.
    case(7, [7, 7], [4, 5], 2, [3, 1, 1]),
    case(5, [8, 5], [3, 2], 1, [3, 2, 1]),
    case(11, [2, 2], [6, 4], 1, [3, 1, 1]),
    // Products of some rows of positions, in two sizes.
    case(1, [37, 41], [40, 3], 1, [3, 1, 1]),
    case(2, [35, 33], [70, 2], 1, [3, 1, 0]),
    // Windows that skip pixels, that are wider than the image, and that cover only padding.
    case(2, [10, 7], [2, 3], 1, [2, 3, 0]),
    case(2, [2, 3], [2, 3], 2, [5, 1, 2]),
    case(3, [2, 3], [2, 2], 1, [2, 2, 3]),
    case(2, [4, 3], [2, 3], 1, [2, 1, 2]),
    // One channel, one position, one image.
    case(4, [6, 6], [1, 1], 1, [3, 1, 1]),
    case(2, [3, 3], [4, 5], 1, [3, 1, 0]),
    case(1, [1, 1], [3, 1], 4, [1, 1, 0]),
    // A group with one output, whose gradient is a convolution of single channels.
    case(2, [5, 6], [3, 1], 2, [3, 1, 1]),
    // Two filters for each channel by itself.
    case(3, [6, 5], [1, 2], 3, [3, 2, 1]),
];

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0)
        .collect()
}

impl Case {
    fn x(&self) -> [usize; 4] {
        let [height, width] = self.size;
        [self.batch, self.groups * self.channels[0], height, width]
    }

    fn weight(&self) -> [usize; 4] {
        let [inputs, outputs] = self.channels;
        [self.groups * outputs, inputs, self.kernel, self.kernel]
    }

    fn output(&self) -> [usize; 4] {
        let [rows, columns] = self
            .size
            .map(|length| (length + 2 * self.padding - self.kernel) / self.stride + 1);
        [self.batch, self.groups * self.channels[1], rows, columns]
    }

    /// Output and the gradients of x, the weight and the bias if there is one, for a weighted sum of the output.
    fn run(
        &self,
        device: &Device,
        has_bias: bool,
        convolve: impl Fn(Tensor<4>, Tensor<4>, Option<Tensor<1>>) -> Tensor<4>,
    ) -> [Vec<f32>; 4] {
        let input = |shape: [usize; 4], seed| -> Tensor<4> {
            tensor(&numbers(shape.iter().product(), seed), shape, device)
        };
        let x = input(self.x(), 1).require_grad();
        let weight = input(self.weight(), 2).require_grad();
        let outputs = self.weight()[0];
        let bias: Tensor<1> = tensor(&numbers(outputs, 4), [outputs], device).require_grad();
        let given = has_bias.then(|| bias.clone());
        let out = convolve(x.clone(), weight.clone(), given);
        assert_eq!(out.dims(), self.output(), "{self:?}");
        let grads = (out.clone() * input(self.output(), 3)).sum().backward();
        [
            values(out),
            values(x.grad(&grads).unwrap()),
            values(weight.grad(&grads).unwrap()),
            bias.grad(&grads).map(values).unwrap_or_default(),
        ]
    }

    fn ours(&self, device: &Device, has_bias: bool) -> [Vec<f32>; 4] {
        self.run(device, has_bias, |x, weight, bias| {
            conv2d(x, weight, bias, self.stride, self.padding, self.groups)
        })
    }

    fn burns(&self, device: &Device, has_bias: bool) -> [Vec<f32>; 4] {
        let options = ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], self.groups);
        self.run(device, has_bias, |x, weight, bias| {
            module::conv2d(x, weight, bias, options.clone())
        })
    }

    /// The same by definition.
    fn defined(&self, has_bias: bool) -> [Vec<f32>; 4] {
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let x = numbers(count(self.x()), 1);
        let weight = numbers(count(self.weight()), 2);
        let grad = numbers(count(self.output()), 3);
        let [inputs, outputs] = self.channels;
        let ([_, channels, height, width], [_, filters, rows, columns]) = (self.x(), self.output());
        let mut out = vec![0.0; grad.len()];
        let (mut of_x, mut of_weight) = (vec![0.0; x.len()], vec![0.0; weight.len()]);
        let bias = numbers(if has_bias { filters } else { 0 }, 4);
        let mut of_bias = vec![0.0; bias.len()];
        for to in 0..grad.len() {
            let (column, row) = (to % columns, to / columns % rows);
            let (filter, image) = (to / columns / rows % filters, to / columns / rows / filters);
            if has_bias {
                out[to] += f64::from(bias[filter]);
                of_bias[filter] += f64::from(grad[to]);
            }
            for at in 0..inputs * self.kernel.pow(2) {
                let (right, down) = (at % self.kernel, at / self.kernel % self.kernel);
                let (y, x_) = (row * self.stride + down, column * self.stride + right);
                let inside = (self.padding..self.padding + height).contains(&y)
                    && (self.padding..self.padding + width).contains(&x_);
                if !inside {
                    continue;
                }
                let channel = filter / outputs * inputs + at / self.kernel.pow(2);
                let line = (image * channels + channel) * height + y - self.padding;
                let from = line * width + x_ - self.padding;
                let by = filter * inputs * self.kernel.pow(2) + at;
                out[to] += f64::from(x[from]) * f64::from(weight[by]);
                of_x[from] += f64::from(grad[to]) * f64::from(weight[by]);
                of_weight[by] += f64::from(grad[to]) * f64::from(x[from]);
            }
        }
        [out, of_x, of_weight, of_bias].map(|sums| sums.into_iter().map(|x| x as f32).collect())
    }
}

fn assert_agree(case: &Case, actual: &[Vec<f32>; 4], expected: &[Vec<f32>; 4]) {
    for (what, (a, e)) in ["out", "x", "weight", "bias"]
        .iter()
        .zip(actual.iter().zip(expected))
    {
        // Sums of a thousand numbers are about 20.
        let size = e.iter().fold(1.0_f32, |size, x| size.max(x.abs()));
        assert_close(&format!("{case:?}: {what}"), a, e, 5e-6 * size);
    }
}

#[test]
fn agrees_with_the_definition_and_with_burns_convolution() {
    let device = Device::flex().autodiff();
    for case in CASES {
        for has_bias in [false, true] {
            let actual = case.ours(&device, has_bias);
            assert_agree(&case, &actual, &case.defined(has_bias));
            assert_agree(&case, &actual, &case.burns(&device, has_bias));
        }
    }
}

#[test]
fn every_device_agrees_with_the_definition() {
    let case = case(2, [6, 5], [3, 4], 2, [3, 2, 1]);
    for (_, device) in devices() {
        let actual = case.ours(&device.autodiff(), true);
        assert_agree(&case, &actual, &case.defined(true));
    }
}

#[test]
fn other_layouts_and_types_agree() {
    let device = Device::flex();
    let case = case(2, [6, 5], [3, 4], 2, [3, 1, 1]);
    let [batch, channels, height, width] = case.x();
    let x: Tensor<4> = tensor(
        &numbers(case.x().iter().product(), 1),
        [batch, height, width, channels],
        &device,
    );
    let weight: Tensor<4> = tensor(
        &numbers(case.weight().iter().product(), 2),
        case.weight(),
        &device,
    );
    // Channels last: contiguous in another order.
    let x = x.permute([0, 3, 1, 2]);
    let copy = tensor(&values(x.clone()), case.x(), &device);
    let ours = |x, weight| conv2d(x, weight, None, 1, 1, 2);
    let expected = values(ours(copy, weight.clone()));
    assert_eq!(values(ours(x.clone(), weight.clone())), expected);
    let wide = |x: Tensor<4>| x.cast(burn::tensor::DType::F64);
    let wide = ours(wide(x), wide(weight));
    assert_eq!(wide.dtype(), burn::tensor::DType::F64);
    assert_close(
        "f64",
        &values(wide.cast(burn::tensor::DType::F32)),
        &expected,
        1e-5,
    );
}

#[test]
fn no_images_have_no_output_and_no_gradient() {
    for channels in [[3, 4], [1, 2]] {
        let case = case(0, [6, 5], channels, 2, [3, 1, 1]);
        let [out, x, weight, bias] = case.ours(&Device::flex().autodiff(), true);
        assert!(out.is_empty() && x.is_empty());
        assert_eq!(bias, vec![0.0; case.weight()[0]]);
        assert_eq!(weight, vec![0.0; case.weight().iter().product()]);
    }
}

#[test]
fn every_subset_of_inputs_gets_the_same_gradients() {
    let device = Device::flex().autodiff();
    let case = case(3, [6, 5], [3, 4], 2, [3, 1, 1]);
    let run = |tracked: [bool; 3], has_bias: bool| {
        let input = |shape: [usize; 4], seed| -> Tensor<4> {
            tensor(&numbers(shape.iter().product(), seed), shape, &device)
        };
        let x = input(case.x(), 1).set_require_grad(tracked[0]);
        let weight = input(case.weight(), 2).set_require_grad(tracked[1]);
        let outputs = case.weight()[0];
        let bias: Tensor<1> = tensor(&numbers(outputs, 4), [outputs], &device);
        let bias = bias.set_require_grad(tracked[2]);
        let given = has_bias.then(|| bias.clone());
        let out = conv2d(x.clone(), weight.clone(), given, 1, 1, 2);
        let grads = (out.clone() * out).sum().backward();
        let of_bias = bias.grad(&grads).map(values);
        [
            x.grad(&grads).map(values),
            weight.grad(&grads).map(values),
            of_bias,
        ]
    };
    for has_bias in [false, true] {
        let all = run([true; 3], has_bias);
        let found = all.each_ref().map(Option::is_some);
        assert_eq!(found, [true, true, has_bias]);
        for subset in 1..if has_bias { 8 } else { 4 } {
            let tracked = [1, 2, 4].map(|bit| subset & bit > 0);
            let expected = [0, 1, 2].map(|i| all[i].clone().filter(|_| tracked[i]));
            assert_eq!(run(tracked, has_bias), expected);
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    // Fewer and more blocks than threads, with one or several images each; and a product that threads share.
    for case in [
        case(1, [28, 28], [24, 24], 2, [3, 1, 1]),
        case(3, [40, 33], [24, 48], 1, [3, 1, 1]),
        case(12, [20, 20], [8, 8], 2, [3, 2, 1]),
        case(40, [7, 7], [64, 96], 1, [1, 1, 0]),
        case(2, [56, 56], [32, 96], 1, [1, 1, 0]),
    ] {
        let results = [1, 5].map(|threads| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| case.ours(&Device::flex().autodiff(), true))
        });
        assert_eq!(results[0], results[1], "{case:?}");
    }
}

#[test]
#[should_panic(expected = "do not fit images")]
fn a_weight_of_other_groups_is_refused() {
    let device = Device::flex();
    let input = |shape: [usize; 4]| tensor(&numbers(shape.iter().product(), 1), shape, &device);
    let _ = conv2d(input([1, 4, 3, 3]), input([4, 4, 3, 3]), None, 1, 1, 2);
}

#[test]
#[should_panic(expected = "and Some(3) biases do not fit images")]
fn a_bias_of_other_length_is_refused() {
    let device = Device::flex();
    let input = |shape: [usize; 4]| tensor(&numbers(shape.iter().product(), 1), shape, &device);
    let bias = Some(tensor(&[1.0; 3], [3], &device));
    let _ = conv2d(input([1, 4, 3, 3]), input([4, 2, 3, 3]), bias, 1, 1, 2);
}
