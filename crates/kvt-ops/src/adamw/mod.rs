//! What an optimizer does to every parameter: AdamW's update, and the sum of squares for clipping.
//!
//! Composed of Burn's operations, an update is a dozen passes over all parameters: on the CPU on one thread, on a
//! GPU as several kernels per parameter. Here it is one.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

mod cpu;
#[cfg(feature = "cube")]
mod gpu;
#[cfg(feature = "cube")]
mod kernel;

/// The numbers of one update of AdamW (Loshchilov & Hutter, 2019), in PyTorch's order of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Multiplies the gradient, for clipping.
    pub grad_scale: f64,
    /// Multiplies the weight: `1 - lr * weight_decay`.
    pub weight_scale: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the square root of the second moment.
    pub eps: f64,
    /// `lr / (1 - beta1^t)` in the `t`-th update.
    pub step_size: f64,
    /// `1 / sqrt(1 - beta2^t)` in the `t`-th update.
    pub inv_sqrt_bias_correction2: f64,
}

/// AdamW on a backend, for flat tensors without autodiff.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Fusion: cfg(feature = "cube"))]
pub(crate) trait AdamWOps: Backend {
    /// The sum of the squares, `[1]`, summed in f32 in an order that depends on the length alone.
    #[fusion(meta = scalar)]
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The new weight, first moment and second moment.
    #[fusion(meta = |weight, _grad, exp_avg, exp_avg_sq, _step| (weight.clone(), exp_avg.clone(), exp_avg_sq.clone()))]
    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// One number of the same type.
#[cfg(feature = "cube")]
fn scalar(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(burn::tensor::Shape::new([1]), x.dtype)
}

/// The sum of the squares of a tensor without autodiff, `[1]`.
pub fn square_sum(x: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::square_sum(x.into_dispatch()))
}

/// One update of AdamW: the new weight, and the new first and second moment.
///
/// With `g = grad_scale * grad`:
///
/// ```text
/// exp_avg    <- beta1 exp_avg + (1 - beta1) g
/// exp_avg_sq <- beta2 exp_avg_sq + (1 - beta2) g^2
/// weight     <- weight_scale weight - step_size exp_avg / (sqrt(exp_avg_sq) inv_sqrt_bias_correction2 + eps)
/// ```
///
/// Computed in f32, also for half types and f64.
///
/// # Panics
/// If the tensors, which are flat and without autodiff, differ in length or type.
pub fn adamw(
    weight: Tensor<1>,
    grad: Tensor<1>,
    [exp_avg, exp_avg_sq]: [Tensor<1>; 2],
    step: AdamWStep,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    let kind = |x: &Tensor<1>| (x.dims(), x.dtype());
    let others = [&grad, &exp_avg, &exp_avg_sq].map(kind);
    assert_eq!(
        others,
        [kind(&weight); 3],
        "adamw: tensors of one length and type"
    );
    let (weight, grad) = (weight.into_dispatch(), grad.into_dispatch());
    let (exp_avg, exp_avg_sq) = (exp_avg.into_dispatch(), exp_avg_sq.into_dispatch());
    let (weight, exp_avg, exp_avg_sq) = Dispatch::adamw(weight, grad, exp_avg, exp_avg_sq, step);
    let tensor = Tensor::from_dispatch;
    (tensor(weight), [tensor(exp_avg), tensor(exp_avg_sq)])
}
