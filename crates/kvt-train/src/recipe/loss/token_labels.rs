//! Token labelling: a target for each token beside that of the image.
//!
//! Jiang et al., [*All Tokens Matter*](https://arxiv.org/abs/2104.10858), with the losses of the official
//! [VOLO](https://github.com/sail-sg/volo) (`loss/cross_entropy.py`) and its MixToken. Functions for the models with an
//! auxiliary head; nothing in the configuration leads here yet.

use burn::tensor::Tensor;

use super::cross_entropy;

/// The outputs of a model that is trained with token labels.
#[derive(Clone, Debug)]
pub struct TokenLogits {
    /// Of the image, `[batch, classes]`.
    pub class: Tensor<2>,
    /// Of its tokens, `[batch, tokens, classes]`.
    pub tokens: Tensor<3>,
    /// Tokens of the rectangle that MixToken took from the partner, image `n - 1 - i`; 0 where nothing was mixed.
    pub mixed: usize,
}

/// What such a model is to learn.
#[derive(Clone, Debug)]
pub struct TokenTargets {
    /// Of the image, `[batch, classes]`.
    pub class: Tensor<2>,
    /// Of its tokens, `[batch, tokens, classes]`; `None` gives each token the target of its image, as VOLO does for
    /// training without label maps.
    pub tokens: Option<Tensor<3>>,
}

/// `class_weight * CE(class) + token_weight * CE(tokens)`, VOLO's `TokenLabelCrossEntropy`: the target of the image is
/// mixed with its partner's by the share of tokens that MixToken exchanged. The tokens' targets are not: the model has put
/// the logits of exchanged tokens back to their image. The result is `[1]`.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn token_label_cross_entropy(
    logits: TokenLogits,
    targets: TokenTargets,
    (class_weight, token_weight): (f64, f64),
) -> Tensor<1> {
    let [batch, tokens, classes] = logits.tokens.dims();
    let of_tokens = match targets.tokens {
        Some(targets) => targets.reshape([batch * tokens, classes]),
        None => {
            let each = targets.class.clone().unsqueeze_dim::<3>(1);
            each.repeat_dim(1, tokens)
                .reshape([batch * tokens, classes])
        }
    };
    let own = 1.0 - logits.mixed as f64 / tokens as f64;
    let of_class = match logits.mixed {
        0 => targets.class,
        _ => targets.class.clone() * own + targets.class.flip([0]) * (1.0 - own),
    };
    let token_logits = logits.tokens.reshape([batch * tokens, classes]);
    cross_entropy(logits.class, of_class) * class_weight
        + cross_entropy(token_logits, of_tokens) * token_weight
}

/// The target of an image from the label of its crop and the truth, `[batch, classes]` each: half of each where both name
/// the same class, else 0.9 of the label and 0.1 of the truth (VOLO's `TokenLabelGTCrossEntropy`, its `--ground-truth`).
pub fn relabel(label: Tensor<2>, truth: Tensor<2>) -> Tensor<2> {
    let agree = label.clone().argmax(1).equal(truth.clone().argmax(1));
    let share = agree.float() * -0.4 + 0.9;
    label * share.clone() + truth * (share.neg() + 1.0)
}
