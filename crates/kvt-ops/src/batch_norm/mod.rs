//! Batch normalisation (Ioffe & Szegedy, 2015), forward and backward, with a residual and a ReLU where they follow.
//!
//! On the CPU, Burn composes it of operations that permute the batch and pass over it on one thread, a dozen times. Here
//! the statistics are one pass and the output another, on all threads. GPUs use Burn's operations, which it fuses.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, ExtensionType, TensorMetadata, backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor};

use crate::autodiff::{record_asked, split, split_optional};
use crate::optional::Optional;

pub(crate) mod cpu;

/// How a batch is normalised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Added to the variance.
    epsilon: f64,
    /// The statistics are those of the batch itself: gradients pass through them.
    own_statistics: bool,
    /// A ReLU follows.
    relu: bool,
}

/// A non-empty batch and what normalises it.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) struct Batch<B: Backend> {
    /// `[outer, channels, inner]`; the others are `[channels]`.
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: FloatTensor<B>,
    mean: FloatTensor<B>,
    variance: FloatTensor<B>,
    settings: Settings,
}

/// Batch normalisation on a backend, in f32. The default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait BatchNormOps: Backend {
    /// The mean and the biased variance of each channel of a non-empty x `[outer, channels, inner]`. No gradient passes through them.
    #[fusion(default)]
    fn channel_statistics(x: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let mean = channel_means::<Self>(x.clone());
        let centred = Self::float_sub(x, of_channels::<Self>(mean.clone()));
        let variance = channel_means::<Self>(Self::float_mul(centred.clone(), centred));
        (mean, variance)
    }

    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, then a residual of the shape of x is added, then comes the ReLU, if there
    /// are any.
    #[fusion(default)]
    fn normalise_channels(
        #[extension_type] batch: Batch<Self>,
        #[extension_type] residual: Optional<Self>,
    ) -> FloatTensor<Self> {
        let Batch {
            x,
            gamma,
            beta,
            mean,
            variance,
            settings,
        } = batch;
        let out = Self::batch_norm(x, gamma, beta, mean, variance, settings.epsilon);
        let out = match residual.get() {
            Some(residual) => Self::float_add(out, residual),
            None => out,
        };
        if settings.relu { Self::relu(out) } else { out }
    }

    /// The gradient of the input of a ReLU, from its output.
    #[fusion(default)]
    fn relu_gradient(out: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu_backward(out, grad)
    }

    /// The gradients of x, gamma and beta, from that before the ReLU.
    #[fusion(default)]
    fn normalise_channels_backward(
        #[extension_type] batch: Batch<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let Batch {
            x,
            gamma,
            mean,
            variance,
            settings,
            ..
        } = batch;
        let epsilon = settings.epsilon;
        if settings.own_statistics {
            let all = Self::batch_norm_train_backward(x, gamma, mean, variance, epsilon, grad);
            return (all.x_grad, all.gamma_grad, all.beta_grad);
        }
        let rstd = Self::float_recip(Self::float_sqrt(Self::float_add_scalar(
            variance,
            epsilon.into(),
        )));
        let centred = Self::float_sub(x, of_channels::<Self>(mean));
        let along = channel_sums::<Self>(Self::float_mul(grad.clone(), centred));
        let scale = Self::float_mul(gamma, rstd.clone());
        (
            Self::float_mul(grad.clone(), of_channels::<Self>(scale)),
            Self::float_mul(along, rstd),
            channel_sums::<Self>(grad),
        )
    }
}

#[cfg(feature = "cube")]
impl BatchNormOps for burn_cubecl::CubeBackend {}

impl<B: BatchNormOps, C: CheckpointStrategy> BatchNormOps for Autodiff<B, C> {
    fn channel_statistics(x: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (mean, variance) = B::channel_statistics(Self::inner(x));
        (Self::from_inner(mean), Self::from_inner(variance))
    }

    fn normalise_channels(batch: Batch<Self>, residual: Optional<Self>) -> FloatTensor<Self> {
        let ([of_x, of_gamma, of_beta], [x, gamma, beta]) =
            split([batch.x, batch.gamma, batch.beta]);
        let (of_residual, residual) = split_optional::<B>(residual.get(), &x);
        let nodes = [of_x, of_gamma, of_beta, of_residual];
        let [mean, variance] = [batch.mean, batch.variance].map(Self::inner);
        let batch = Batch::<B> {
            x,
            gamma,
            beta,
            mean,
            variance,
            settings: batch.settings,
        };
        let out = B::normalise_channels(batch.clone(), Optional::<B>::of(residual));
        // Without a ReLU the output is not kept.
        let kept = batch.settings.relu.then(|| out.clone());
        record_asked::<B, C, _, _>(nodes, out, (batch, kept), |(batch, kept), grad, asked| {
            // The residual takes the same gradient as the norm: it passes the ReLU once.
            let grad = match kept {
                Some(out) => B::relu_gradient(out, grad),
                None => grad,
            };
            let residual = asked[3].then(|| grad.clone());
            let (x, gamma, beta) = B::normalise_channels_backward(batch, grad);
            [Some(x), Some(gamma), Some(beta), residual]
        })
    }
}

/// `[channels]` to `[1, channels, 1]`.
fn of_channels<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let channels = x.shape()[0];
    B::float_reshape(x, Shape::new([1, channels, 1]))
}

/// `[outer, channels, inner]` to `[channels, outer * inner]`.
fn by_channel<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let [outer, channels, inner] = x.shape().dims();
    let x = B::float_swap_dims(x, 0, 1);
    B::float_reshape(x, Shape::new([channels, outer * inner]))
}

fn channel_means<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let channels = x.shape()[1];
    let means = B::float_mean_dim(by_channel::<B>(x), 1);
    B::float_reshape(means, Shape::new([channels]))
}

fn channel_sums<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let channels = x.shape()[1];
    let sums = B::float_sum_dim(by_channel::<B>(x), 1);
    B::float_reshape(sums, Shape::new([channels]))
}

/// The parameters of a batch norm, what it adds to the variance, and what follows it.
#[derive(Clone, Debug)]
pub struct BatchNormInput {
    /// `[channels]`.
    pub gamma: Tensor<1>,
    /// `[channels]`.
    pub beta: Tensor<1>,
    /// Added to the variance.
    pub epsilon: f64,
    /// Added to the output, before the ReLU; it has the shape of x.
    pub residual: Option<Tensor<3>>,
    /// Applies `max(0, ..)` to the output.
    pub relu: bool,
}

/// A batch that was normalised by its own statistics.
#[derive(Clone, Debug)]
pub struct Normalised {
    /// `[outer, channels, inner]`.
    pub output: Tensor<3>,
    /// `[channels]`, without a graph.
    pub mean: Tensor<1>,
    /// The biased variance, `[channels]`, without a graph.
    pub variance: Tensor<1>,
}

/// Normalises each channel by the mean and the variance that it has in x, on any device.
///
/// # Shapes
/// `[outer, channels, inner]`: for images `[batch, channels, height * width]`, for tokens `[batch * tokens, channels, 1]`.
///
/// # Panics
/// If x is empty, gamma or beta has another number of channels, the residual another shape, or a tensor is not f32.
pub fn batch_norm_train(x: Tensor<3>, input: BatchNormInput) -> Normalised {
    check(&x, &input, &[]);
    let (mean, variance) = Dispatch::channel_statistics(x.clone().into_dispatch());
    let [mean, variance] = [mean, variance].map(Tensor::from_dispatch);
    let output = normalised(x, input, [mean.clone(), variance.clone()], true);
    Normalised {
        output,
        mean,
        variance,
    }
}

/// Normalises each channel by a mean and a variance that are given, on any device. They receive no gradient.
///
/// # Shapes
/// As [`batch_norm_train`].
///
/// # Panics
/// As [`batch_norm_train`], and if a statistic has another number of channels or is not f32.
pub fn batch_norm(x: Tensor<3>, input: BatchNormInput, statistics: [Tensor<1>; 2]) -> Tensor<3> {
    check(&x, &input, &statistics);
    normalised(x, input, statistics, false)
}

fn normalised(
    x: Tensor<3>,
    input: BatchNormInput,
    statistics: [Tensor<1>; 2],
    own_statistics: bool,
) -> Tensor<3> {
    let settings = Settings {
        epsilon: input.epsilon,
        own_statistics,
        relu: input.relu,
    };
    let [mean, variance] = statistics.map(Tensor::into_dispatch);
    let batch = Batch::<Dispatch> {
        x: x.into_dispatch(),
        gamma: input.gamma.into_dispatch(),
        beta: input.beta.into_dispatch(),
        mean,
        variance,
        settings,
    };
    let residual = Optional::<Dispatch>::of(input.residual.map(Tensor::into_dispatch));
    Tensor::from_dispatch(Dispatch::normalise_channels(batch, residual))
}

fn check(x: &Tensor<3>, input: &BatchNormInput, statistics: &[Tensor<1>]) {
    let shape = x.dims();
    let of_channels = [&input.gamma, &input.beta].into_iter().chain(statistics);
    let (lengths, mut types): (Vec<_>, Vec<_>) =
        of_channels.map(|x| (x.dims()[0], x.dtype())).unzip();
    assert!(
        !shape.contains(&0) && lengths.iter().all(|length| *length == shape[1]),
        "batch norm: parameters and statistics of lengths {lengths:?} do not fit a batch of shape {shape:?}"
    );
    let residual = input.residual.as_ref().map_or(shape, Tensor::dims);
    assert!(
        residual == shape,
        "batch norm: a residual of shape {residual:?} does not fit a batch of shape {shape:?}"
    );
    types.extend(input.residual.as_ref().map(Tensor::dtype));
    types.push(x.dtype());
    assert!(
        types.iter().all(|dtype| *dtype == DType::F32),
        "batch norm: parameters, statistics, a residual and a batch of types {types:?}: it takes f32, so cast them first"
    );
}
