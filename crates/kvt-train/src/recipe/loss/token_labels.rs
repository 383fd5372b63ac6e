//! Token labelling: a target for each token in addition to that of the image.
//!
//! Jiang et al., [*All Tokens Matter*](https://arxiv.org/abs/2104.10858), with the losses of the official
//! [VOLO](https://github.com/sail-sg/volo) (`loss/cross_entropy.py`) and its MixToken, for models with an output for every
//! token. Label maps are not supported yet: in training, each token has the target of its image.

use burn::tensor::Tensor;

use super::LossConfig;

/// The outputs of a model that is trained with token labels.
#[derive(Clone, Debug)]
pub struct TokenLogits {
    /// For the image, `[batch, classes]`.
    pub class: Tensor<2>,
    /// For its tokens, `[batch, tokens, classes]`.
    pub tokens: Tensor<3>,
    /// Number of tokens in the rectangle that MixToken took from the partner, image `n - 1 - i`; 0 if nothing was mixed.
    pub mixed: usize,
}

impl LossConfig {
    /// The loss of the image plus [`token_weight`](Self::token_weight) times that of its tokens, for targets `[batch, classes]` of the
    /// images; with cross-entropy, VOLO's `TokenLabelCrossEntropy` without label maps: each token has the target of its image.
    /// The target of the image is mixed with its partner's by the fraction of tokens that MixToken exchanged. The targets of the
    /// tokens are not mixed: the logits of exchanged tokens have been moved back to their image. The result is `[1]`.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn of_tokens(&self, logits: TokenLogits, targets: Tensor<2>) -> Tensor<1> {
        let [batch, tokens, classes] = logits.tokens.dims();
        let own = 1.0 - logits.mixed as f64 / tokens as f64;
        let of_class = match logits.mixed {
            0 => targets.clone(),
            _ => targets.clone() * own + targets.clone().flip([0]) * (1.0 - own),
        };
        let loss = self.of(logits.class, of_class);
        if self.token_weight == 0.0 {
            return loss;
        }
        let of_tokens = targets.unsqueeze_dim::<3>(1).repeat_dim(1, tokens);
        let flat = |x: Tensor<3>| x.reshape([batch * tokens, classes]);
        loss + self.of(flat(logits.tokens), flat(of_tokens)) * self.token_weight
    }
}
