//! Token labelling: a target for each token in addition to that of the image.
//!
//! Jiang et al., [*All Tokens Matter*](https://arxiv.org/abs/2104.10858), with the losses of the official
//! [VOLO](https://github.com/sail-sg/volo) (`loss/cross_entropy.py`) and its MixToken, for models with an output for every
//! token. Label maps are not supported yet: in training, each token has the target of its image.

use burn::tensor::Tensor;

use super::LossConfig;

impl LossConfig {
    /// The loss of the image plus [`token_weight`](Self::token_weight) times that of its tokens, for the logits of the image,
    /// `[batch, classes]`, those of its tokens, `[batch, tokens, classes]`, and targets `[batch, classes]` of the images; with
    /// cross-entropy, VOLO's `TokenLabelCrossEntropy` without label maps: each token has the target of its image.
    /// The target of the image is mixed with that of its partner, image `n - 1 - i`, by the fraction of tokens that MixToken
    /// exchanged: `mixed` is their number in an image, 0 if nothing was mixed. The targets of the tokens are not mixed: the logits of
    /// exchanged tokens have been moved back to their image. The result is `[1]`.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn of_tokens(
        &self,
        class: Tensor<2>,
        tokens: Tensor<3>,
        mixed: usize,
        targets: Tensor<2>,
    ) -> Tensor<1> {
        let [batch, count, classes] = tokens.dims();
        let own = 1.0 - mixed as f64 / count as f64;
        let of_class = match mixed {
            0 => targets.clone(),
            _ => targets.clone() * own + targets.clone().flip([0]) * (1.0 - own),
        };
        let loss = self.of(class, of_class);
        if self.token_weight == 0.0 {
            return loss;
        }
        let of_tokens = targets.unsqueeze_dim::<3>(1).repeat_dim(1, count);
        let flat = |x: Tensor<3>| x.reshape([batch * count, classes]);
        loss + self.of(flat(tokens), flat(of_tokens)) * self.token_weight
    }
}
