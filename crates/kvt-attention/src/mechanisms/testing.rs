//! For tests: inputs of mechanisms.

use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, tensor, values};
use rand::RngExt;

use crate::{Context, Mechanism, Place};

/// Numbers from -2 to 2.
pub(super) fn numbers<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
    let mut rng = Key::new(seed).rng();
    let len = shape.iter().product();
    let data: Vec<f32> = (0..len).map(|_| rng.random_range(-2.0..2.0)).collect();
    tensor(&data, shape, &Device::flex())
}

/// Queries, keys and values of 2 images, 3 heads, 33 tokens and 8 channels.
pub(super) fn qkv() -> [Tensor<4>; 3] {
    [1, 2, 3].map(|seed| numbers([2, 3, 33, 8], seed))
}

/// The context of a call with [`qkv`].
pub(super) fn context() -> Context {
    Place::new(33, 24, 3).context(Phase::Eval)
}

/// Half types are widened, and the output has their type.
pub(super) fn assert_half_is_widened(mechanism: &impl Mechanism, context: &Context) {
    let half = qkv().map(|x| x.cast(DType::F16));
    let [q, k, v] = half.clone().map(|x| x.cast(DType::F32));
    let expected = values(mechanism.attend(q, k, v, context.clone()));
    let [q, k, v] = half;
    let out = mechanism.attend(q, k, v, context.clone());
    assert_eq!(out.dtype(), DType::F16);
    // Half of a unit in the last of 11 bits, and twice as much where two outputs are added.
    assert_close("half", &values(out), &expected, 1.5e-3);
}
