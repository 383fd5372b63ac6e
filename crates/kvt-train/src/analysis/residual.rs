//! How much a branch adds to the residual stream.

use burn::tensor::Tensor;

/// `|f(t)| / |t|`: the norm of a branch's output, before drop path and addition, divided by the norm of the stream that it is added to,
/// before the branch's own norm, for each image `[images]`. The first `prefix` tokens are not patches.
///
/// The paper does not say whether the norm is taken per token or over all tokens, nor whether the class token counts. So there are three:
/// per token, averaged over all tokens; per token, averaged over the patches, `None` if there are none; and with norms over all tokens
/// of an image.
///
/// # Shapes
///
/// `[images, tokens, dim]` both.
pub fn ratios(branch: Tensor<3>, stream: Tensor<3>, prefix: usize) -> [Option<Tensor<1>>; 3] {
    let [images, tokens, _] = branch.dims();
    let [branch, stream] = [branch, stream].map(|x| x.square().sum_dim(2));
    let whole = [&branch, &stream].map(|squares| squares.clone().sum_dim(1).sqrt());
    let [of_branch, of_stream] = whole;
    let whole = of_branch / of_stream.clamp_min(f32::MIN_POSITIVE);
    let each = branch.sqrt() / stream.sqrt().clamp_min(f32::MIN_POSITIVE);
    let patches = tokens.saturating_sub(prefix);
    let mean = |each: Tensor<3>| each.mean_dim(1).reshape([images]);
    [
        Some(mean(each.clone())),
        (patches > 0).then(|| mean(each.narrow(1, prefix, patches))),
        Some(whole.reshape([images])),
    ]
}
