//! The CubeCL kernel of all that is done to the values of a branch one by one.

use cubecl::prelude::*;

/// `r + s (x + b)`, of which bias, scale and residual may be missing (sequences of one or none), in the type of the output. The sum with the
/// bias is rounded to the type of x, as the output of a layer is. A unit has one value.
#[cube(launch, address_type = "dynamic")]
pub(super) fn join_kernel<X: Float, P: Float, R: Float>(
    x: &Tensor<X>,
    bias: &Sequence<OwnedTensor<P>>,
    scale: &Sequence<OwnedTensor<f32>>,
    residual: &Sequence<OwnedTensor<R>>,
    out: &mut Tensor<R>,
    count: u32,
    width: u32,
    sample: u32,
    #[comptime] with: (bool, bool, bool),
    #[define(X)] _of_x: ElemType,
    #[define(P)] _of_bias: ElemType,
    #[define(R)] _of_out: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count as usize {
        let mut value = f32::cast_from(x[i]);
        if with.0 {
            let bias = bias.index(0)[i % width as usize];
            let sum = value + f32::cast_from(X::cast_from(bias));
            value = f32::cast_from(X::cast_from(sum));
        }
        if with.1 {
            value *= scale.index(0)[i / sample as usize];
        }
        if with.2 {
            value += f32::cast_from(residual.index(0)[i]);
        }
        out[i] = R::cast_from(value);
    }
}
