//! Attention of the tokens of each window among themselves.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use kvt_attention::{Context, Mechanism, Mixer, Place, Score, split_heads};
use kvt_ops::linear;

use super::super::stage::StageSize;
use crate::family::cost::BlockSize;
use crate::layers::{Init, Pass, SelfAttention, Windows};

/// Locally-grouped self-attention.
#[derive(Module, Debug)]
pub(in crate::twins) struct LocalAttention {
    qkv: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
    /// Side of a window in tokens.
    #[module(skip)]
    side: usize,
    /// Whether padding is never attended to.
    #[module(skip)]
    hides_padding: bool,
}

impl LocalAttention {
    pub(super) fn new(init: &Init<'_>, size: &StageSize) -> Self {
        let BlockSize { dim, qkv_bias, .. } = size.blocks.block;
        let place = size.local();
        Self {
            qkv: init.linear("qkv", dim, 3 * dim, qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            mixer: size.blocks.attention.init(&place, &init.child("mixer")),
            place,
            side: size.window_size,
            hides_padding: size.hides_padding(),
        }
    }

    /// `true` for keys that are padding.
    ///
    /// # Shapes
    ///
    /// `[batch * windows, 1, 1, area]`; `None` if nothing is hidden.
    fn hidden(&self, windows: Windows, batch: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        if !self.hides_padding || windows.padded() == windows.map {
            return None;
        }
        let padding: Vec<bool> = windows.sources().map(|source| source.is_none()).collect();
        let (count, area) = (windows.count(), windows.area());
        let of_image = TensorData::new(padding, [1, count, 1, area]);
        let of_image = Tensor::<4, Bool>::from_data(of_image, device);
        // An operation, not data: an export takes any batch.
        let hidden = of_image.expand([batch, count, 1, area]);
        Some(hidden.reshape([batch * count, 1, 1, area]))
    }
}

impl SelfAttention<3> for LocalAttention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let [batch, tokens, dim] = x.dims();
        let [rows, columns] = pass.grid;
        let heads = self.place.heads;
        let windows = Windows::plain(pass.grid, self.side);
        let (count, area) = (windows.count(), windows.area());

        // Each window is a sequence by itself. Padding comes before the projection, so that it gets the bias.
        let cut = windows.cut(x.reshape([batch, rows, columns, dim]));
        let qkv = linear(&self.qkv, cut.reshape([batch * count, area, dim]));
        let context = Context {
            score: Score {
                bias: None,
                mask: self.hidden(windows, batch, &qkv.device()),
            },
            ..self.place.context(pass.phase)
        };
        pass.watch.probabilities(|| {
            let [q, k, _] = split_heads(qkv.clone(), heads);
            let probabilities = self.mixer.probabilities(q, k, &context)?;
            Some(probabilities.reshape([batch, count * heads, area, area]))
        });
        let mixed = self.mixer.attend_packed(qkv, heads, context);
        windows
            .join(mixed.reshape([batch, count, area, dim]))
            .reshape([batch, tokens, dim])
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
