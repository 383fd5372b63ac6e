//! The custom operations on the CPU backend, forward and backward, at the sizes of a DeiT-Tiny step with a batch of
//! 16; depthwise convolutions at the sizes of CvT-13's second stage, other convolutions at Visformer's. Run with
//! `cargo bench --bench operations`.
//!
//! For comparisons with PyTorch, peaks and memory, use `kvt bench`.

use burn::nn::{LayerNormConfig, LinearConfig};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};
use divan::{Bencher, black_box};
use kvt_attention::{Neighbors, Score, SoftmaxAttention, attend};
use kvt_ops::{Key, gelu, knn_softmax, layer_norm, linear, linear_add, square_sum};
use rand::RngExt;

const BATCH: usize = 16;
const TOKENS: usize = 197;
const DIM: usize = 192;
const HEADS: usize = 3;
const HIDDEN: usize = 768;

fn main() {
    divan::main();
}

/// Numbers around 0 that depend only on their count.
fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let data = TensorData::new(numbers(shape.iter().product()), shape);
    Tensor::from_data(data, &Device::flex().autodiff())
}

/// Approximately standard normal: scaled sums of four uniform numbers.
fn numbers(count: usize) -> Vec<f32> {
    let mut rng = Key::new(0).rng();
    let mut draw = || (0..4).map(|_| rng.random::<f32>() - 0.5).sum::<f32>() * 3f32.sqrt();
    (0..count).map(|_| draw()).collect()
}

/// Times a function of a tensor and its gradient.
fn both<const D: usize, const O: usize>(
    bencher: Bencher<'_, '_>,
    shape: [usize; D],
    function: impl Fn(Tensor<D>) -> Tensor<O>,
) {
    let input = random(shape).require_grad();
    bencher.bench_local(|| black_box(function(input.clone()).sum().backward()));
}

/// Keys kept of 197: dense, and the paper's choice.
#[divan::bench(args = [TOKENS, 100])]
fn attention(bencher: Bencher<'_, '_>, kept: usize) {
    let attention = SoftmaxAttention::knn(Neighbors::count(kept).unwrap_or(Neighbors::All));
    let [k, v] = [(); 2].map(|()| random([BATCH, HEADS, TOKENS, DIM / HEADS]));
    both(bencher, [BATCH, HEADS, TOKENS, DIM / HEADS], |q| {
        let (k, v) = (k.clone(), v.clone());
        let out = attend(q.clone(), k, v, Score::default(), 0.125, &attention, None);
        // The shapes fit.
        out.unwrap_or(q)
    });
}

/// As [`attention`], from scores to probabilities only.
#[divan::bench(args = [TOKENS, 100])]
fn softmax(bencher: Bencher<'_, '_>, kept: usize) {
    both(bencher, [BATCH, HEADS, TOKENS, TOKENS], |x| {
        knn_softmax(x, kept)
    });
}

/// From scores to probabilities, forward only, 100 keys kept. The time of the selection depends on the scores: all
/// different (`normal`), with one per row far above the others (`sink`: a key that nearly all queries prefer), or on
/// eight levels (`equal`: keys that are alike).
#[divan::bench(args = ["normal", "sink", "equal"])]
fn selection(bencher: Bencher<'_, '_>, scores: &str) {
    let shape = [BATCH, HEADS, TOKENS, TOKENS];
    let mut values = numbers(shape.iter().product());
    match scores {
        "sink" => values.iter_mut().step_by(TOKENS).for_each(|x| *x = 20.0),
        "equal" => values
            .iter_mut()
            .for_each(|x| *x = (x.clamp(-1.9, 1.9) * 2.0).floor()),
        _ => {}
    }
    let data = TensorData::new(values, shape);
    bencher
        .with_inputs(|| Tensor::<4>::from_data(data.clone(), &Device::flex()))
        .bench_local_values(|x| knn_softmax(x, 100));
}

/// The GELU between the layers of the MLP.
#[divan::bench]
fn gelu_of_the_mlp(bencher: Bencher<'_, '_>) {
    both(bencher, [BATCH, TOKENS, HIDDEN], gelu);
}

/// A layer norm of all tokens.
#[divan::bench]
fn norm(bencher: Bencher<'_, '_>) {
    let layer = LayerNormConfig::new(DIM).init(&Device::flex().autodiff());
    both(bencher, [BATCH, TOKENS, DIM], |x| {
        layer_norm(&layer, x, 1e-6)
    });
}

/// The first layer of the MLP.
#[divan::bench]
fn linear_layer(bencher: Bencher<'_, '_>) {
    let layer = LinearConfig::new(DIM, HIDDEN).init(&Device::flex().autodiff());
    both(bencher, [BATCH, TOKENS, DIM], |x| linear(&layer, x));
}

/// The second layer of the MLP, with its residual.
#[divan::bench]
fn linear_layer_and_residual(bencher: Bencher<'_, '_>) {
    let layer = LinearConfig::new(HIDDEN, DIM).init(&Device::flex().autodiff());
    let residual = random([BATCH, TOKENS, DIM]).require_grad();
    both(bencher, [BATCH, TOKENS, HIDDEN], |x| {
        linear_add(&layer, x, residual.clone())
    });
}

/// Filters of 3 x 3 on 192 maps of 28 x 28, at stride 1 for queries and 2 for keys and values.
#[divan::bench(args = [1, 2])]
fn depthwise(bencher: Bencher<'_, '_>, stride: usize) {
    let weight = random([DIM, 1, 3, 3]).require_grad();
    both(bencher, [BATCH, DIM, 28, 28], |x| {
        kvt_ops::conv2d(x, weight.clone(), None, stride, 1, DIM)
    });
}

/// The same with Burn's own convolution.
#[divan::bench(args = [1, 2])]
fn depthwise_of_burn(bencher: Bencher<'_, '_>, stride: usize) {
    let weight = random([DIM, 1, 3, 3]).require_grad();
    both(bencher, [BATCH, DIM, 28, 28], |x| {
        let options = ConvOptions::new([stride; 2], [1; 2], [1, 1], DIM);
        conv2d(x, weight.clone(), None, options)
    });
}

/// A convolution: maps of `size` pixels a side, channels, groups and the kernel's side.
type Convolution = (usize, usize, usize, usize);

/// Visformer's filters of 3 x 3 in groups, and single pixels of large maps.
const CONVOLUTIONS: [Convolution; 2] = [(28, 192, 8, 3), (56, 96, 1, 1)];

#[divan::bench(args = CONVOLUTIONS)]
fn convolution(bencher: Bencher<'_, '_>, convolution: Convolution) {
    let (size, channels, groups, kernel) = convolution;
    let weight = random([channels, channels / groups, kernel, kernel]).require_grad();
    both(bencher, [BATCH, channels, size, size], |x| {
        kvt_ops::conv2d(x, weight.clone(), None, 1, kernel / 2, groups)
    });
}

/// The same with Burn's own convolution.
#[divan::bench(args = CONVOLUTIONS)]
fn convolution_of_burn(bencher: Bencher<'_, '_>, convolution: Convolution) {
    let (size, channels, groups, kernel) = convolution;
    let weight = random([channels, channels / groups, kernel, kernel]).require_grad();
    both(bencher, [BATCH, channels, size, size], |x| {
        let options = ConvOptions::new([1; 2], [kernel / 2; 2], [1, 1], groups);
        conv2d(x, weight.clone(), None, options)
    });
}

/// The squared norm of a gradient as large as the MLP's weights.
#[divan::bench]
fn square(bencher: Bencher<'_, '_>) {
    let gradient = random([DIM * HIDDEN]).inner();
    bencher.bench_local(|| black_box(square_sum(gradient.clone())));
}
