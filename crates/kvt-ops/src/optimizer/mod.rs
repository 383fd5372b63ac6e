//! What an optimizer does to every parameter: the sum of squares for clipping, and AdamW's update.
//!
//! Composed of Burn's operations an update is a dozen passes over all parameters, on the CPU by one
//! thread; on a GPU several kernels per parameter are left of them after fusion. Here it is one.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

#[cfg(feature = "cube")]
mod cube;
mod flex;
#[cfg(feature = "cube")]
mod kernel;

/// The numbers of one update of AdamW (Loshchilov & Hutter, 2019), in PyTorch's order of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// What the gradient is multiplied with first, for clipping.
    pub factor: f64,
    /// What the weight is multiplied with: `1 - lr weight_decay`.
    pub decay: f64,
    /// Decay rates of the moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// `lr / (1 - beta1^t)`
    pub size: f64,
    /// `1 / sqrt(1 - beta2^t)`
    pub correction: f64,
}

/// What a backend provides for optimizers, on flat tensors without autodiff.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Fusion: cfg(feature = "cube"))]
pub trait OptimizerOps: Backend {
    /// The sum of the squares, `[1]`, summed in f32 in an order that the length alone decides.
    #[fusion(meta = one_of)]
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The new weight and the new moments.
    #[fusion(meta = |weight, _grad, first, second, _step| (weight.clone(), first.clone(), second.clone()))]
    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// An update composed of Burn's operations, for devices whose kernels get too few tensors.
#[cfg(feature = "cube")]
fn composed<B: Backend>(
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    [first, second]: [FloatTensor<B>; 2],
    step: AdamWStep,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let times = |x, factor: f64| B::float_mul_scalar(x, factor.into());
    let (beta1, beta2) = step.betas;
    let grad = times(grad, step.factor);
    let square = B::float_mul(grad.clone(), grad.clone());
    let first = B::float_add(times(first, beta1), times(grad, 1.0 - beta1));
    let second = B::float_add(times(second, beta2), times(square, 1.0 - beta2));
    let root = times(B::float_sqrt(second.clone()), step.correction);
    let root = B::float_add_scalar(root, step.eps.into());
    let change = times(B::float_div(first.clone(), root), step.size);
    let weight = B::float_sub(times(weight, step.decay), change);
    (weight, first, second)
}

/// One number of the same type.
#[cfg(feature = "cube")]
fn one_of(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(burn::tensor::Shape::new([1]), x.dtype)
}

/// The sum of the squares of a tensor without autodiff, `[1]`.
pub fn square_sum(x: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::square_sum(x.into_dispatch()))
}

/// One update of AdamW: the new weight, and the new first and second moment. All flat, of one length
/// and type, and without autodiff. Computed in f32, also where they are f64.
///
/// # Panics
/// If the lengths or the types differ.
pub fn adamw(
    weight: Tensor<1>,
    grad: Tensor<1>,
    [first, second]: [Tensor<1>; 2],
    step: AdamWStep,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    let of = |x: &Tensor<1>| (x.dims(), x.dtype());
    let others = [&grad, &first, &second].map(of);
    assert_eq!(
        others,
        [of(&weight); 3],
        "adamw: tensors of one length and type"
    );
    let (weight, grad) = (weight.into_dispatch(), grad.into_dispatch());
    let (first, second) = (first.into_dispatch(), second.into_dispatch());
    let (weight, first, second) = Dispatch::adamw(weight, grad, first, second, step);
    let tensor = Tensor::from_dispatch;
    (tensor(weight), [tensor(first), tensor(second)])
}
