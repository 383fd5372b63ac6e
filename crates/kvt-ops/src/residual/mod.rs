//! A branch added to a residual stream, whole or scaled sample by sample: `r + s x`, as stochastic depth does it (Huang et al., 2016).
//!
//! Composed of Burn's operations, this is a cast, a product and a sum, with two more operations for the gradient with respect to
//! the branch. On a GPU Burn fuses them into one kernel. On the CPU each would be a pass over all values on one thread; here
//! forward and backward are one pass each, on all threads.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{FloatDType, Shape, Tensor};

use crate::autodiff::{record_asked, split};
use crate::cast::cast;
use crate::convert::{ConvertOps, in_type};

mod cpu;

/// Residual streams on a backend; the defaults are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ResidualOps: ConvertOps {
    /// `r + s x` in the type of r. x has the shape of r, `[batch, ..]`, in any float type; s is `[batch]` in the type of r.
    #[fusion(default)]
    fn add_scaled(
        residual: FloatTensor<Self>,
        branch: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        add_scaled::<Self>(residual, branch, scale)
    }

    /// `s x` in any float type, of x `[batch, ..]` and s `[batch]` in the type of x.
    #[fusion(default)]
    fn scaled(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        scaled::<Self>(x, scale, dtype)
    }
}

#[cfg(feature = "cube")]
impl ResidualOps for burn_cubecl::CubeBackend {}

impl<B: ResidualOps, C: CheckpointStrategy> ResidualOps for Autodiff<B, C> {
    fn add_scaled(
        residual: FloatTensor<Self>,
        branch: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (nodes, [residual, branch, scale]) = split([residual, branch, scale]);
        let own = FloatDType::from(branch.dtype());
        let out = B::add_scaled(residual, branch, scale.clone());
        // The scale is drawn, not learned.
        record_asked::<B, C, _, _>(nodes, out, (scale, own), |(scale, own), grad, asked| {
            let of_branch = asked[1].then(|| B::scaled(grad.clone(), scale, own));
            [Some(grad), of_branch, None]
        })
    }
}

/// [`ResidualOps::add_scaled`] composed of Burn's operations.
fn add_scaled<B: ConvertOps>(
    residual: FloatTensor<B>,
    branch: FloatTensor<B>,
    scale: FloatTensor<B>,
) -> FloatTensor<B> {
    let branch = cast::<B>(branch, residual.dtype());
    let scale = one_per_sample::<B>(scale, branch.shape());
    B::float_add(residual, B::float_mul(branch, scale))
}

/// [`ResidualOps::scaled`] composed of Burn's operations.
fn scaled<B: ConvertOps>(
    x: FloatTensor<B>,
    scale: FloatTensor<B>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let scale = one_per_sample::<B>(scale, x.shape());
    cast::<B>(B::float_mul(x, scale), dtype.into())
}

/// Reshapes `[batch]` to `[batch, 1, ..]`, to broadcast it to a shape.
fn one_per_sample<B: ConvertOps>(scale: FloatTensor<B>, mut shape: Shape) -> FloatTensor<B> {
    for i in 1..shape.num_dims() {
        shape[i] = 1;
    }
    B::float_reshape(scale, shape)
}

/// A residual stream to which a branch is added, whole or scaled.
#[derive(Clone, Debug)]
pub struct Residual<const D: usize> {
    pub(crate) stream: Tensor<D>,
    pub(crate) scale: Option<Tensor<1>>,
}

impl<const D: usize> Residual<D> {
    /// A stream `[batch, ..]` whose branch is multiplied by one factor per sample, `[batch]` in f32. The factors receive no
    /// gradient.
    pub fn scaled(stream: Tensor<D>, scale: Tensor<1>) -> Self {
        let scale = Some(scale);
        Self { stream, scale }
    }

    /// The stream plus a branch, in the type of the stream; the branch may have a half type.
    ///
    /// # Shapes
    /// `[batch, ..]`, as the stream; a stream without a scale is broadcast.
    ///
    /// # Panics
    /// If the scale has another number of samples, or if there is a scale and the branch has another shape.
    pub fn plus(self, branch: Tensor<D>) -> Tensor<D> {
        let Self { stream, scale } = self;
        let Some(scale) = scale else {
            let dtype = stream.dtype();
            return stream + in_type(branch, dtype);
        };
        assert_eq!(stream.dims(), branch.dims(), "stream and branch");
        assert_eq!(stream.dims()[..1], scale.dims(), "samples and their scales");
        let scale = in_type(scale, stream.dtype());
        let (stream, branch) = (stream.into_dispatch(), branch.into_dispatch());
        Tensor::from_dispatch(Dispatch::add_scaled(stream, branch, scale.into_dispatch()))
    }
}

impl<const D: usize> From<Tensor<D>> for Residual<D> {
    fn from(stream: Tensor<D>) -> Self {
        let scale = None;
        Self { stream, scale }
    }
}
