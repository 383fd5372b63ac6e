//! The per-parameter work of an optimizer: AdamW's update, and the sum of squares for clipping.
//!
//! Composed of Burn's operations, an update makes a dozen passes over all parameters: on the CPU on one thread, on a GPU as
//! several kernels per parameter. Here it is one pass, and a GPU updates up to [eight](Eight) parameters per launch.
//!
//! A [`Guard`] lets the device decide whether an update is made, so that the host need not wait.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Device, Tensor};

use self::eight::{Eight, GROUP, transposed};
use crate::convert::in_type;

mod cpu;
mod eight;
#[cfg(feature = "cube")]
mod gpu;

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

/// The inputs of an AdamW update of one parameter: flat tensors of one length and type, without autodiff.
#[derive(Clone, Debug)]
pub struct AdamWInput {
    /// The weight.
    pub weight: Tensor<1>,
    /// Its gradient.
    pub grad: Tensor<1>,
    /// First and second moment.
    pub moments: [Tensor<1>; 2],
    /// The numbers.
    pub step: AdamWStep,
}

/// AdamW on a backend, for flat tensors without autodiff.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Fusion: cfg(feature = "cube"))]
pub(crate) trait AdamWOps: Backend {
    /// The sum of the squares, `[1]`, summed in f32 in an order that depends only on the length.
    #[fusion(meta = scalar)]
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Partial sums with the squares of eight tensors added to them; all in f32. The order depends only on the lengths.
    #[fusion(meta = |parts, _tensors| parts.clone())]
    fn add_square_sums(
        parts: FloatTensor<Self>,
        #[extension_type] tensors: Eight<Self>,
    ) -> FloatTensor<Self>;

    /// The sum of such partial sums, `[1]`.
    #[fusion(meta = scalar)]
    fn sum_of_parts(parts: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The content of a [`Guard`], given the guard of the previous update; all in f32.
    #[fusion(meta = |_numbers, before, _max_norm| before.clone())]
    fn guard(
        numbers: FloatTensor<Self>,
        before: FloatTensor<Self>,
        max_norm: f64,
    ) -> FloatTensor<Self>;

    /// The new weight, first moment and second moment, using the factor of a [`Guard`], if it lets the update be made; else the
    /// inputs.
    #[fusion(meta = |weight, _grad, exp_avg, exp_avg_sq, _guard, _step| (weight.clone(), exp_avg.clone(), exp_avg_sq.clone()))]
    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        guard: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// [`Self::adamw`] for eight non-empty parameters of one type.
    #[fusion(meta = |weights, _grads, exp_avgs, exp_avg_sqs, _guard, _steps| (weights.clone(), exp_avgs.clone(), exp_avg_sqs.clone()))]
    fn adamw_of_eight(
        #[extension_type] weights: Eight<Self>,
        #[extension_type] grads: Eight<Self>,
        #[extension_type] exp_avgs: Eight<Self>,
        #[extension_type] exp_avg_sqs: Eight<Self>,
        guard: FloatTensor<Self>,
        steps: [AdamWStep; GROUP],
    ) -> (Eight<Self>, Eight<Self>, Eight<Self>);
}

/// A single number of the same type.
#[cfg(feature = "cube")]
fn scalar(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(burn::tensor::Shape::new([1]), x.dtype)
}

/// The device's decision about an update: whether it is made, and the factor for its gradients.
///
/// `[2]` in f32: the factor; and 1 if the update is made, else 0.
#[derive(Clone, Debug)]
pub struct Guard(Tensor<1>);

impl Guard {
    /// The decision about an update from these numbers. The last is the norm of its gradients.
    ///
    /// The update is made if all numbers are finite and the previous update, `before`, was made. The factor is `min(1, max_norm /
    /// (norm + 1e-6))`, as in PyTorch's `clip_grad_norm_`, or 1 without a `max_norm`.
    ///
    /// # Panics
    /// If there are no numbers.
    pub fn new(numbers: Tensor<1>, before: Option<&Self>, max_norm: Option<f64>) -> Self {
        assert!(
            numbers.dims() != [0],
            "guard: it takes the norm of the gradients"
        );
        let numbers = in_type(numbers, DType::F32);
        let before = before.cloned();
        let before = before.unwrap_or_else(|| Self::open(&numbers.device())).0;
        // A larger norm is not finite.
        let max_norm = max_norm.unwrap_or(f64::from(f32::MAX));
        let (numbers, before) = (numbers.into_dispatch(), before.into_dispatch());
        Self(Tensor::from_dispatch(Dispatch::guard(
            numbers, before, max_norm,
        )))
    }

    /// Lets every update be made, with a factor of 1.
    fn open(device: &Device) -> Self {
        Self(Tensor::ones([2], (device, DType::F32)))
    }

    /// The decision, `[2]` in f32: the factor; and 1 if the update is made, else 0.
    pub fn content(&self) -> Tensor<1> {
        self.0.clone()
    }
}

/// Maximum number of partial sums over many tensors: one for each workgroup of a launch.
const PARTS: usize = 1024;

/// Maximum number of elements of the longest tensor per partial sum, unless that takes more than [`PARTS`] sums.
const NUMBERS_OF_A_PART: usize = 1024;

/// The sum of the squares of a tensor without autodiff, `[1]`.
pub fn square_sum(x: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::square_sum(x.into_dispatch()))
}

/// The sum of the squares of all elements of flat tensors without autodiff, `[1]`, or `None` without tensors. It has their type,
/// or f32 where they differ. The order of summation depends only on types and lengths.
///
/// On the CPU it is [`square_sum`] of each, added up from the first to the last.
pub fn square_sums(tensors: &[Tensor<1>]) -> Option<Tensor<1>> {
    let first = tensors.first()?;
    let all_are = |dtype| tensors.iter().all(|x| x.dtype() == dtype);
    let (groups, rest) = if all_are(DType::F32) {
        tensors.as_chunks::<GROUP>()
    } else {
        (&[][..], tensors)
    };
    let are_alike = all_are(first.dtype());
    let longest = groups.as_flattened().iter().map(|x| x.dims()[0]).max();
    let sum = longest.map(|longest| {
        let parts = longest.div_ceil(NUMBERS_OF_A_PART).clamp(1, PARTS);
        let parts = Tensor::<1>::zeros([parts], (&first.device(), DType::F32));
        let parts = groups.iter().fold(parts.into_dispatch(), |parts, group| {
            let group = group.clone().map(Tensor::into_dispatch);
            Dispatch::add_square_sums(parts, Eight::new(group))
        });
        Tensor::from_dispatch(Dispatch::sum_of_parts(parts))
    });
    let dtype = if are_alike { first.dtype() } else { DType::F32 };
    let rest = rest.iter().map(|x| in_type(square_sum(x.clone()), dtype));
    sum.into_iter().chain(rest).reduce(|a, b| a + b)
}

/// One update of AdamW of each parameter: the new weights, with the new first and second moments.
///
/// With `g = grad_scale * grad`:
///
/// ```text
/// exp_avg    <- beta1 exp_avg + (1 - beta1) g
/// exp_avg_sq <- beta2 exp_avg_sq + (1 - beta2) g^2
/// weight     <- weight_scale weight - step_size exp_avg / (sqrt(exp_avg_sq) inv_sqrt_bias_correction2 + eps)
/// ```
///
/// Computed in f32, also for half types and f64. The factor of a guard also multiplies the gradient. Where the guard rejects the
/// update, weight and moments stay unchanged, whatever the gradient.
///
/// # Panics
/// If the tensors of a parameter differ in length or type.
pub fn adamw(inputs: Vec<AdamWInput>, guard: Option<&Guard>) -> Vec<(Tensor<1>, [Tensor<1>; 2])> {
    let Some(first) = inputs.first() else {
        return Vec::new();
    };
    let open = || Guard::open(&first.weight.device());
    let guard = guard.cloned().unwrap_or_else(open);
    let mut outputs = Vec::with_capacity(inputs.len());
    let mut inputs = inputs.into_iter().inspect(assert_alike).peekable();
    while inputs.peek().is_some() {
        let group: Vec<_> = inputs.by_ref().take(GROUP).collect();
        match <[AdamWInput; GROUP]>::try_from(group) {
            Ok(group) if are_alike(&group) => outputs.extend(update_eight(group, &guard)),
            Ok(group) => outputs.extend(group.map(|input| update(input, &guard))),
            Err(few) => outputs.extend(few.into_iter().map(|input| update(input, &guard))),
        }
    }
    outputs
}

/// Updates one parameter.
fn update(input: AdamWInput, guard: &Guard) -> (Tensor<1>, [Tensor<1>; 2]) {
    let AdamWInput {
        weight,
        grad,
        moments: [exp_avg, exp_avg_sq],
        step,
    } = input;
    let (weight, grad) = (weight.into_dispatch(), grad.into_dispatch());
    let (exp_avg, exp_avg_sq) = (exp_avg.into_dispatch(), exp_avg_sq.into_dispatch());
    let guard = guard.0.clone().into_dispatch();
    let (weight, exp_avg, exp_avg_sq) =
        Dispatch::adamw(weight, grad, exp_avg, exp_avg_sq, guard, step);
    let tensor = Tensor::from_dispatch;
    (tensor(weight), [tensor(exp_avg), tensor(exp_avg_sq)])
}

/// Updates eight parameters.
fn update_eight(
    inputs: [AdamWInput; GROUP],
    guard: &Guard,
) -> impl Iterator<Item = (Tensor<1>, [Tensor<1>; 2])> {
    let steps = inputs.each_ref().map(|input| input.step);
    let inputs = inputs.map(|input| {
        let [exp_avg, exp_avg_sq] = input.moments;
        [input.weight, input.grad, exp_avg, exp_avg_sq].map(Tensor::into_dispatch)
    });
    let [weights, grads, exp_avgs, exp_avg_sqs] = transposed(inputs).map(Eight::<Dispatch>::new);
    let guard = guard.0.clone().into_dispatch();
    let outputs: [Eight<Dispatch>; 3] =
        Dispatch::adamw_of_eight(weights, grads, exp_avgs, exp_avg_sqs, guard, steps).into();
    let outputs = transposed(outputs.map(Eight::into_array)).into_iter();
    outputs.map(|output| {
        let [weight, moments @ ..] = output.map(Tensor::from_dispatch);
        (weight, moments)
    })
}

/// Whether all parameters can go in one launch.
fn are_alike(inputs: &[AdamWInput; GROUP]) -> bool {
    let [first, ..] = inputs;
    let dtype = first.weight.dtype();
    let is_like = |input: &AdamWInput| input.weight.dtype() == dtype && input.weight.dims() != [0];
    inputs.iter().all(is_like)
}

fn assert_alike(input: &AdamWInput) {
    let kind = |x: &Tensor<1>| (x.dims(), x.dtype());
    let [exp_avg, exp_avg_sq] = &input.moments;
    assert_eq!(
        [&input.grad, exp_avg, exp_avg_sq].map(kind),
        [kind(&input.weight); 3],
        "adamw: tensors of one length and type"
    );
}
