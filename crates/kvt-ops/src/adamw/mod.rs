//! What an optimizer does to every parameter: AdamW's update, and the sum of squares for clipping.
//!
//! Composed of Burn's operations, an update is a dozen passes over all parameters: on the CPU on one thread, on a
//! GPU as several kernels per parameter. Here it is one.
//!
//! A [`Guard`] lets the device decide about an update, which the host then need not wait for.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use crate::cast::in_type;

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

    /// The content of a [`Guard`], from the one of the update before; all in f32.
    #[fusion(meta = decision)]
    fn guard(
        numbers: FloatTensor<Self>,
        before: FloatTensor<Self>,
        max_norm: f64,
    ) -> FloatTensor<Self>;

    /// [`Self::adamw`] with the factor of a [`Guard`], if it lets the update be made; else the inputs.
    #[fusion(meta = |weight, _grad, exp_avg, exp_avg_sq, _guard, _step| (weight.clone(), exp_avg.clone(), exp_avg_sq.clone()))]
    fn guarded_adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        guard: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// One number of the same type.
#[cfg(feature = "cube")]
fn scalar(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(burn::tensor::Shape::new([1]), x.dtype)
}

/// The tensor of a guard.
#[cfg(feature = "cube")]
fn decision(_numbers: &TensorSpec, before: &TensorSpec, _max_norm: &f64) -> TensorSpec {
    before.clone()
}

/// What the device decides about an update: whether it is made, and by what its gradients are multiplied.
///
/// `[2]` in f32: the factor; and 1 if the update is made, else 0.
#[derive(Clone, Debug)]
pub struct Guard(Tensor<1>);

impl Guard {
    /// The decision about an update on which these numbers tell, the last of them the norm of its gradients.
    ///
    /// It is made if all of them are finite, and if the one that was `before` it was made. The factor is
    /// `min(1, max_norm / (norm + 1e-6))`, as of PyTorch's `clip_grad_norm_`, or 1 without a largest norm.
    ///
    /// # Panics
    /// If there are no numbers.
    pub fn new(numbers: Tensor<1>, before: Option<&Self>, max_norm: Option<f64>) -> Self {
        assert!(
            numbers.dims() != [0],
            "guard: it takes the norm of the gradients"
        );
        let numbers = in_type(numbers, DType::F32);
        let before = match before {
            Some(before) => before.0.clone(),
            None => Tensor::ones([2], (&numbers.device(), DType::F32)),
        };
        // A norm above that is not finite.
        let max_norm = max_norm.unwrap_or(f64::from(f32::MAX));
        let (numbers, before) = (numbers.into_dispatch(), before.into_dispatch());
        Self(Tensor::from_dispatch(Dispatch::guard(
            numbers, before, max_norm,
        )))
    }
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
    assert_alike(&weight, [&grad, &exp_avg, &exp_avg_sq]);
    let (weight, grad) = (weight.into_dispatch(), grad.into_dispatch());
    let (exp_avg, exp_avg_sq) = (exp_avg.into_dispatch(), exp_avg_sq.into_dispatch());
    let (weight, exp_avg, exp_avg_sq) = Dispatch::adamw(weight, grad, exp_avg, exp_avg_sq, step);
    let tensor = Tensor::from_dispatch;
    (tensor(weight), [tensor(exp_avg), tensor(exp_avg_sq)])
}

/// [`adamw`] as a guard decides: weight and moments stay as they are where the update is not made, whatever the gradient, which is
/// also multiplied with the guard's factor.
///
/// # Panics
/// As [`adamw`].
pub fn guarded_adamw(
    weight: Tensor<1>,
    grad: Tensor<1>,
    [exp_avg, exp_avg_sq]: [Tensor<1>; 2],
    guard: &Guard,
    step: AdamWStep,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    assert_alike(&weight, [&grad, &exp_avg, &exp_avg_sq]);
    let (weight, grad) = (weight.into_dispatch(), grad.into_dispatch());
    let (exp_avg, exp_avg_sq) = (exp_avg.into_dispatch(), exp_avg_sq.into_dispatch());
    let guard = guard.0.clone().into_dispatch();
    let (weight, exp_avg, exp_avg_sq) =
        Dispatch::guarded_adamw(weight, grad, exp_avg, exp_avg_sq, guard, step);
    let tensor = Tensor::from_dispatch;
    (tensor(weight), [tensor(exp_avg), tensor(exp_avg_sq)])
}

fn assert_alike(weight: &Tensor<1>, others: [&Tensor<1>; 3]) {
    let kind = |x: &Tensor<1>| (x.dims(), x.dtype());
    assert_eq!(
        others.map(kind),
        [kind(weight); 3],
        "adamw: tensors of one length and type"
    );
}
