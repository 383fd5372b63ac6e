//! Nyström attention: landmarks between queries and keys, and an iterative inverse between the landmarks.

use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Tensor};
use kvt_ops::contiguous_gradient;

use super::weighing::{Weighing, with_prefix};
use crate::{
    AttentionError, Context, Cost, Law, Macs, Mechanism, MechanismConfig, ParamInit, Place, Ranged,
};

settings! {
    /// `softmax(q k'^T) A^-1 softmax(q' k^T) v` with `A = softmax(q' k'^T) + ridge * I`, all scores times `scale / temperature`;
    /// the landmarks `q'` and `k'` are means of consecutive queries and keys ([Nyströmformer, AAAI
    /// 2021](https://arxiv.org/abs/2102.03902)). `A^-1` is the paper's iteration: after 6 steps an approximation, whose error also
    /// tames a matrix that is close to singular. As in the authors' code for images, but not in the one for
    /// texts, the start of the iteration is one for every matrix, so that an image does not depend on its batch, and segments of two
    /// lengths cover any number of tokens. A token of the prefix is its own landmark. With `ridge = 1` this is the compressed
    /// self-attention of CSALR (Chen et al., IJCAI 2020), which shrinks the output, but whose `A` always has an inverse.
    #[derive(Copy)]
    pub struct NystromConfig {
        /// Means that represent the queries, and as many for the keys; no more than there are tokens.
        pub landmarks: usize = 64, range(min = 1, max = 65536);
        /// Iterations: of the clustering (`clustered`), of the inverse (`nystrom`), of the search (`scram`).
        pub iterations: usize = 6, range(min = 1, max = 100);
        /// Tokens that a depthwise convolution of the values, one kernel for every head, reaches over: an odd number. It is added
        /// to the output; 0 leaves it out.
        pub conv: usize = 0, range(min = 0, max = 1023);
        /// Added to the diagonal of the landmarks' matrix before it is inverted.
        pub ridge: f64 = 0.0, range(min = 0.0, max = 1e6);
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The module of [`NystromConfig`].
#[derive(Module, Debug)]
pub struct Nystrom {
    conv: Option<TokenConv>,
    #[module(skip)]
    config: NystromConfig,
}

impl MechanismConfig for NystromConfig {
    const KIND: &'static str = "nystrom";

    type Mechanism = Nystrom;

    fn validate(&self) -> Result<(), AttentionError> {
        self.check_ranges()?;
        if self.conv > 0 && self.conv.is_multiple_of(2) {
            return Err(AttentionError::Setting(
                "`conv` must be 0 or an odd number up to 1023",
            ));
        }
        Ok(())
    }

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_scores(Self::KIND)?;
        let (landmarks, prefix) = (self.landmarks, place.prefix);
        let (queries, keys) = (place.queries, place.keys);
        let least = queries.min(keys);
        let (reason, help) = if least > 0 && least <= prefix {
            (
                "needs tokens after the prefix for its landmarks".to_owned(),
                "use `dense` or `knn` here".to_owned(),
            )
        } else if least > 0 && landmarks > least {
            (
                format!("cannot make `landmarks` {landmarks} of {least} tokens"),
                format!("set `landmarks` to {least} or less"),
            )
        } else if landmarks <= prefix {
            (
                format!(
                    "needs more than {landmarks} `landmarks`: each of the {prefix} tokens before the map is one"
                ),
                format!("set `landmarks` to {} or more", prefix + 1),
            )
        } else if self.conv > 0 && queries != keys {
            (
                format!("adds a convolution of {keys} values to the output of {queries} queries"),
                "set `conv` to 0".to_owned(),
            )
        } else {
            return Ok(());
        };
        Err(AttentionError::misplaced(Self::KIND, reason, help))
    }

    fn cost(&self, place: &Place) -> Cost {
        let (landmarks, dim) = (self.landmarks, place.dim());
        let products = 2 * (place.queries + place.keys + landmarks) * landmarks * dim;
        let inverse = 4 * self.iterations * landmarks.pow(3) * place.heads;
        let convolution = Macs::linear(place.keys * self.conv * dim);
        Cost {
            params: self.conv * place.heads,
            macs: Macs::attention(products + inverse) + convolution,
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> Nystrom {
        let conv = (self.conv > 0).then(|| {
            // PyTorch's bound, for the `conv` inputs of an output.
            let bound = (self.conv as f32).powf(-0.5);
            let (init, shape) = (init.child("conv"), [place.heads, 1, self.conv, 1]);
            TokenConv {
                weight: init.param("weight", shape, Law::Uniform { bound }),
            }
        });
        Nystrom {
            conv,
            config: *self,
        }
    }
}

impl Mechanism for Nystrom {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
        // There may be fewer tokens if their number was not known beforehand.
        let count = self.config.landmarks.min(q.dims()[2]).min(k.dims()[2]);
        let [q_mean, k_mean] = [&q, &k].map(|x| landmarks(x, count, context.prefix));
        let weighing = Weighing::new(self.config.temperature, &context);
        // Both long products are attentions: of the landmarks to the tokens, and of the tokens to the landmarks.
        let taken = weighing.attend(q_mean.clone(), k, v.clone());
        let inverse = inverse(
            &self.between(q_mean, k_mean.clone(), context.scale),
            self.config.iterations,
        );
        let out = weighing.attend(q, k_mean, inverse.matmul(taken));
        let out = match &self.conv {
            Some(conv) => out + conv.forward(v),
            None => out,
        };
        out.cast(dtype)
    }
}

impl Nystrom {
    /// `softmax(q' k'^T) + ridge * I`, `[batch, heads, landmarks, landmarks]`.
    fn between(&self, q: Tensor<4>, k: Tensor<4>, scale: f64) -> Tensor<4> {
        let q = q * (scale / self.config.temperature);
        let weights = softmax(q.matmul(k.swap_dims(2, 3)), 3);
        if self.config.ridge == 0.0 {
            return weights;
        }
        let [.., count] = weights.dims();
        let identity = Tensor::<2>::eye(count, &weights.device()).cast(DType::F32);
        weights + (identity * self.config.ridge).unsqueeze::<4>()
    }
}

/// A convolution over the tokens: the channels of a head share one kernel, and heads are independent.
#[derive(Module, Debug)]
struct TokenConv {
    /// `[heads, 1, kernel, 1]`.
    weight: Param<Tensor<4>>,
}

impl TokenConv {
    /// `[batch, heads, tokens, dim]` to the same shape.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val().cast(x.dtype());
        let [heads, _, kernel, _] = weight.dims();
        let options = ConvOptions::new([1, 1], [kernel / 2, 0], [1, 1], heads);
        contiguous_gradient(conv2d(x, weight, None, options))
    }
}

/// `count` landmarks of `x`, `[batch, heads, tokens, dim]`: the tokens of the prefix, and means of the others.
fn landmarks(x: &Tensor<4>, count: usize, prefix: usize) -> Tensor<4> {
    let tokens = x.dims()[2];
    let prefix = prefix.min(count - 1);
    let rest = x.clone().narrow(2, prefix, tokens - prefix);
    let means = segment_means(rest, count - prefix);
    with_prefix(x.clone(), prefix, means)
}

/// Means of consecutive tokens: lengths differ by at most one, and the shorter segments come first.
fn segment_means(x: Tensor<4>, count: usize) -> Tensor<4> {
    let [batch, heads, tokens, dim] = x.dims();
    let means = |x: Tensor<4>, count: usize| {
        let length = x.dims()[2] / count;
        let segments = x.reshape([batch, heads, count, length, dim]);
        segments.mean_dim(3).squeeze_dim::<4>(3)
    };
    let (length, longer) = (tokens / count, tokens % count);
    if longer == 0 {
        return means(x, count);
    }
    let cut = (count - longer) * length;
    let first = x.clone().narrow(2, 0, cut);
    let last = x.narrow(2, cut, tokens - cut);
    Tensor::cat(vec![means(first, count - longer), means(last, longer)], 2)
}

/// Approximates `A^-1` for square matrices without negative entries: `Z <- Z (13 I - Y (15 I - Y (7 I - Y))) / 4`
/// with `Y = A Z`, from `Z = A^T / (|A|_1 |A|_inf)`, for every matrix by itself.
fn inverse(a: &Tensor<4>, iterations: usize) -> Tensor<4> {
    let column = a.clone().sum_dim(2).max_dim(3);
    let row = a.clone().sum_dim(3).max_dim(2);
    let mut z = a.clone().swap_dims(2, 3) / (column * row);
    for _ in 0..iterations {
        // By powers of Y, so that no identity is needed.
        let y = a.clone().matmul(z.clone());
        let square = y.clone().matmul(y.clone());
        let cube = square.clone().matmul(y.clone());
        let rest = y * 15.0 - square * 7.0 + cube;
        z = (z.clone() * 13.0 - z.matmul(rest)) * 0.25;
    }
    z
}

#[cfg(test)]
mod tests;
