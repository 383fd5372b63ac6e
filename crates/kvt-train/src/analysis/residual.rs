//! How much a branch adds to the residual stream.

use burn::tensor::Tensor;

/// `|f(t)| / |t|`: the norm of a branch's output divided by the norm of the stream that it is added to, for each image `[images]`.
/// The paper does not say whether the norm is taken per token or over all tokens, nor whether the class token counts.
#[derive(Clone, Debug)]
pub struct Ratios {
    /// Per token, averaged over all tokens.
    pub tokens: Tensor<1>,
    /// Per token, averaged over the tokens after the prefix; `None` if there are none.
    pub patches: Option<Tensor<1>>,
    /// With norms over all tokens of an image.
    pub whole: Tensor<1>,
}

/// The ratios of a branch's output, before drop path and addition, to the stream that enters the branch, before the norm. The first
/// `prefix` tokens are not patches.
///
/// # Shapes
///
/// `[images, tokens, dim]` both.
pub fn ratios(branch: Tensor<3>, stream: Tensor<3>, prefix: usize) -> Ratios {
    let [images, tokens, _] = branch.dims();
    let [branch, stream] = [branch, stream].map(|x| x.square().sum_dim(2));
    let whole = [&branch, &stream].map(|squares| squares.clone().sum_dim(1).sqrt());
    let [of_branch, of_stream] = whole;
    let whole = of_branch / of_stream.clamp_min(f32::MIN_POSITIVE);
    let each = branch.sqrt() / stream.sqrt().clamp_min(f32::MIN_POSITIVE);
    let patches = tokens.saturating_sub(prefix);
    Ratios {
        tokens: each.clone().mean_dim(1).reshape([images]),
        patches: (patches > 0).then(|| {
            each.narrow(1, prefix, patches)
                .mean_dim(1)
                .reshape([images])
        }),
        whole: whole.reshape([images]),
    }
}
