//! Batch normalisation (Ioffe & Szegedy, 2015), forward and backward, with a residual and a ReLU where they follow.
//!
//! On the CPU, Burn composes it of operations that permute the batch and pass over it on one thread, a dozen times. Here
//! the statistics are one pass and the output another, on all threads. GPUs use Burn's operations, which it fuses.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, TensorMetadata, backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor};

use crate::autodiff::{record, split};

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

impl Settings {
    fn without_relu(self) -> Self {
        Self {
            relu: false,
            ..self
        }
    }
}

/// Batch normalisation on a backend, for non-empty x `[outer, channels, inner]` and `[channels]` for each parameter and statistic.
/// The default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait BatchNormOps: Backend {
    /// The mean and the biased variance of each channel. No gradient passes through them.
    #[fusion(default)]
    fn channel_statistics(x: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        statistics::<Self>(x)
    }

    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.
    #[fusion(default)]
    fn normalise_channels(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        normalise::<Self>(x, [gamma, beta], [mean, variance], settings)
    }

    /// [`normalise_channels`](Self::normalise_channels) with a residual of the shape of x, added before the ReLU.
    #[fusion(default)]
    fn normalise_channels_add(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        normalise_add::<Self>(x, [gamma, beta], [mean, variance], residual, settings)
    }

    /// The gradient of the input of a ReLU, from its output.
    #[fusion(default)]
    fn relu_gradient(out: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu_backward(out, grad)
    }

    /// The gradients of x, gamma and beta. `out` is the output if a ReLU follows; otherwise it is not read.
    #[fusion(default)]
    fn normalise_channels_backward(
        x: FloatTensor<Self>,
        out: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        backward::<Self>([x, out], gamma, [mean, variance], grad, settings).into()
    }
}

#[cfg(feature = "cube")]
impl BatchNormOps for burn_cubecl::CubeBackend {}

impl<B: BatchNormOps, C: CheckpointStrategy> BatchNormOps for Autodiff<B, C> {
    fn channel_statistics(x: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (mean, variance) = B::channel_statistics(Self::inner(x));
        (Self::from_inner(mean), Self::from_inner(variance))
    }

    fn normalise_channels(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let [mean, variance] = [mean, variance].map(Self::inner);
        let (nodes, [x, gamma, beta]) = split([x, gamma, beta]);
        let out = B::normalise_channels(
            x.clone(),
            gamma.clone(),
            beta,
            mean.clone(),
            variance.clone(),
            settings,
        );
        // Without a ReLU the output is not kept.
        let kept = if settings.relu {
            out.clone()
        } else {
            x.clone()
        };
        let state = ([x, kept, gamma, mean, variance], settings);
        record::<B, C, _, _>(nodes, out, state, |(saved, settings), grad| {
            let [x, out, gamma, mean, variance] = saved;
            B::normalise_channels_backward(x, out, gamma, mean, variance, grad, settings).into()
        })
    }

    fn normalise_channels_add(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let [mean, variance] = [mean, variance].map(Self::inner);
        let (nodes, [x, gamma, beta, residual]) = split([x, gamma, beta, residual]);
        let out = B::normalise_channels_add(
            x.clone(),
            gamma.clone(),
            beta,
            mean.clone(),
            variance.clone(),
            residual,
            settings,
        );
        let kept = if settings.relu {
            out.clone()
        } else {
            x.clone()
        };
        let state = ([x, kept, gamma, mean, variance], settings);
        record::<B, C, _, _>(nodes, out, state, |(saved, settings), grad| {
            let [x, out, gamma, mean, variance] = saved;
            // The residual takes the same gradient as the norm: it passes the ReLU once.
            let grad = if settings.relu {
                B::relu_gradient(out.clone(), grad)
            } else {
                grad
            };
            let settings = settings.without_relu();
            let own = grad.clone();
            let (x, gamma, beta) =
                B::normalise_channels_backward(x, out, gamma, mean, variance, own, settings);
            [x, gamma, beta, grad]
        })
    }
}

/// [`BatchNormOps::channel_statistics`] composed of Burn's operations.
fn statistics<B: Backend>(x: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
    let mean = channel_means::<B>(x.clone());
    let centred = B::float_sub(x, of_channels::<B>(mean.clone()));
    let variance = channel_means::<B>(B::float_mul(centred.clone(), centred));
    (mean, variance)
}

/// [`BatchNormOps::normalise_channels`] composed of Burn's operations.
fn normalise<B: Backend>(
    x: FloatTensor<B>,
    [gamma, beta]: [FloatTensor<B>; 2],
    [mean, variance]: [FloatTensor<B>; 2],
    settings: Settings,
) -> FloatTensor<B> {
    let out = B::batch_norm(x, gamma, beta, mean, variance, settings.epsilon);
    if settings.relu { B::relu(out) } else { out }
}

/// [`BatchNormOps::normalise_channels_add`] composed of Burn's operations.
fn normalise_add<B: Backend>(
    x: FloatTensor<B>,
    parameters: [FloatTensor<B>; 2],
    statistics: [FloatTensor<B>; 2],
    residual: FloatTensor<B>,
    settings: Settings,
) -> FloatTensor<B> {
    let out = normalise::<B>(x, parameters, statistics, settings.without_relu());
    let out = B::float_add(out, residual);
    if settings.relu { B::relu(out) } else { out }
}

/// [`BatchNormOps::normalise_channels_backward`] composed of Burn's operations.
fn backward<B: Backend>(
    [x, out]: [FloatTensor<B>; 2],
    gamma: FloatTensor<B>,
    [mean, variance]: [FloatTensor<B>; 2],
    grad: FloatTensor<B>,
    settings: Settings,
) -> [FloatTensor<B>; 3] {
    let epsilon = settings.epsilon;
    let grad = if settings.relu {
        B::relu_backward(out, grad)
    } else {
        grad
    };
    if settings.own_statistics {
        let all = B::batch_norm_train_backward(x, gamma, mean, variance, epsilon, grad);
        return [all.x_grad, all.gamma_grad, all.beta_grad];
    }
    let rstd = B::float_recip(B::float_sqrt(B::float_add_scalar(variance, epsilon.into())));
    let centred = B::float_sub(x, of_channels::<B>(mean));
    let along = channel_sums::<B>(B::float_mul(grad.clone(), centred));
    let scale = B::float_mul(gamma, rstd.clone());
    [
        B::float_mul(grad.clone(), of_channels::<B>(scale)),
        B::float_mul(along, rstd),
        channel_sums::<B>(grad),
    ]
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
/// If x is empty, gamma or beta has another number of channels, or the residual another shape.
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
/// As [`batch_norm_train`], and if a statistic has another number of channels.
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
    let [gamma, beta] = [input.gamma, input.beta].map(Tensor::into_dispatch);
    let [mean, variance] = statistics.map(Tensor::into_dispatch);
    let x = x.into_dispatch();
    Tensor::from_dispatch(match input.residual {
        Some(residual) => {
            let residual = residual.into_dispatch();
            Dispatch::normalise_channels_add(x, gamma, beta, mean, variance, residual, settings)
        }
        None => Dispatch::normalise_channels(x, gamma, beta, mean, variance, settings),
    })
}

fn check(x: &Tensor<3>, input: &BatchNormInput, statistics: &[Tensor<1>]) {
    let shape = x.dims();
    let of_channels = [&input.gamma, &input.beta].into_iter().chain(statistics);
    let lengths: Vec<_> = of_channels.map(|x| x.dims()[0]).collect();
    assert!(
        !shape.contains(&0) && lengths.iter().all(|length| *length == shape[1]),
        "batch norm: parameters and statistics of lengths {lengths:?} do not fit a batch of shape {shape:?}"
    );
    let residual = input.residual.as_ref().map_or(shape, Tensor::dims);
    assert!(
        residual == shape,
        "batch norm: a residual of shape {residual:?} does not fit a batch of shape {shape:?}"
    );
}
