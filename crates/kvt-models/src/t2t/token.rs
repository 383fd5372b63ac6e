//! A layer of the token module, and its cost.

use kvt_attention::{AttentionConfig, Macs, Place};
use kvt_ops::Window;

use crate::family::cost::StageSummary;
use crate::family::places::softmax_only;

/// The sizes of a layer after a soft split, for its modules and their cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenSize {
    /// The soft split before the layer.
    pub split: Window,
    /// Channels of an unfolded token.
    pub input: usize,
    /// Channels of a token after the layer.
    pub dim: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
}

/// The unfolding with kernels of `kernel` pixels at a distance of `stride` pixels, with the least padding that leaves
/// out no pixel at the border: in the original 2 for 7 by 4, and 1 for 3 by 2.
pub(super) fn split(kernel: usize, stride: usize) -> Window {
    Window {
        kernel,
        stride,
        padding: kernel.saturating_sub(stride).div_ceil(2),
    }
}

impl TokenSize {
    /// Tokens of an image.
    pub(super) fn tokens(&self) -> usize {
        self.grid.pow(2)
    }

    /// Features of a Performer: half as many as channels.
    pub(super) fn features(&self) -> usize {
        self.dim / 2
    }

    /// The place of attention in a token transformer, which has one head and no dropout.
    pub(super) fn place(&self) -> Place {
        Place {
            grid: Some([self.grid; 2]),
            softmax_only: softmax_only(
                "no other attention has been tested, as between the soft splits of a T2T-ViT",
            ),
            ..Place::new(self.tokens(), self.dim, 1)
        }
    }

    /// Size and cost of a token transformer with an attention, or of a Performer, which chooses no keys.
    pub(super) fn summary(
        &self,
        name: String,
        attention: Option<&AttentionConfig>,
    ) -> StageSummary {
        let Self { input, dim, .. } = *self;
        let tokens = self.tokens();
        let weights = 3 * input * dim + 3 * dim.pow(2);
        let biases_and_norms = 3 * dim + 2 * input + 2 * dim;
        let (params, macs) = (weights + biases_and_norms, Macs::linear(tokens * weights));
        match attention {
            Some(attention) => {
                StageSummary::new(name, 1, (params, macs), attention, &self.place(), 1)
            }
            // Features of keys and queries, the products of keys with values, of queries with these, and of queries
            // with the sum of the keys. Keys, queries and values have a bias.
            None => {
                let products = Macs::attention(tokens * self.features() * (4 * dim + 1));
                let size = (params + 3 * dim, macs + products);
                StageSummary::without_attention(name, 1, size, tokens)
            }
        }
    }
}
