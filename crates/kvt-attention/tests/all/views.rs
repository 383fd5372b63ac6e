//! Inputs that are not contiguous, against contiguous copies.

use burn::tensor::{Device, Tensor};
use kvt_attention::{Neighbors, Score, SoftmaxAttention, attend};

use crate::devices::{tensor, values};

const TOKENS: usize = 40;
const DIM: usize = 16;

fn input(shape: [usize; 4], seed: usize, device: &Device) -> Tensor<4> {
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect();
    tensor(&data, shape, device)
}

/// Output and the gradients of q, k and v as they are given.
fn run(inputs: [Tensor<4>; 3]) -> Vec<Vec<f32>> {
    let [q, k, v] = inputs.map(|x| x.detach().require_grad());
    let attention = SoftmaxAttention::knn(Neighbors::count(7).unwrap());
    let (a, b, c) = (q.clone(), k.clone(), v.clone());
    let out = attend(a, b, c, Score::default(), 0.3, &attention, None).unwrap();
    let probe = input(out.dims(), 9, &out.device());
    let grads = (out.clone() * probe).sum().backward();
    let grads = [q, k, v].map(|x| values(x.grad(&grads).unwrap()));
    [vec![values(out)], grads.to_vec()].concat()
}

#[test]
fn channels_may_lie_apart_and_tokens_on_one_another() {
    let device = Device::flex().autodiff();
    let plain = |seed| input([2, 3, TOKENS, DIM], seed, &device);
    let turned = |seed| input([2, 3, DIM, TOKENS], seed, &device).swap_dims(2, 3);
    let repeated = |seed| input([2, 3, 1, DIM], seed, &device).expand([2, 3, TOKENS, DIM]);
    // The heads of a channel side by side.
    let mixed = |seed| input([2, TOKENS, DIM, 3], seed, &device).permute([0, 3, 1, 2]);
    for place in 0..3 {
        for view in [turned(place), repeated(place), mixed(place)] {
            let mut inputs = [plain(11), plain(12), plain(13)];
            inputs[place] = view;
            let copies = inputs
                .clone()
                .map(|x| Tensor::from_data(x.into_data(), &device));
            assert_eq!(run(inputs), run(copies), "input {place}");
        }
    }
}
