//! Attention in windows, with a bias for every relative position.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use kvt_attention::{Context, Mechanism, Mixer, Place, Score, split_windows};
use kvt_ops::{Residual, linear};

use super::config::StageSize;
use super::masks::{MaskCache, Masks};
use crate::layers::{Init, Pass, SelfAttention, Windows, plus, scaled};

/// Multi-head self-attention within each window, with a bias for every relative position.
#[derive(Module, Debug)]
pub(super) struct WindowAttention {
    qkv: Linear,
    proj: Linear,
    /// `[relative_positions, heads]`.
    relative_position_bias_table: Param<Tensor<2>>,
    /// Rows of the table, `[area * area]`. It follows from the sizes, and is not saved.
    index: Tensor<1, Int>,
    mixer: Mixer,
    #[module(skip)]
    masks: MaskCache,
    #[module(skip)]
    windows: Windows,
    #[module(skip)]
    place: Place,
}

impl WindowAttention {
    /// The blocks of a stage share their masks.
    pub(super) fn new(
        init: &Init<'_>,
        size: &StageSize,
        windows: Windows,
        masks: MaskCache,
    ) -> Self {
        let (block, place) = (size.blocks.block, size.blocks.place);
        let dim = block.dim;
        let table = [windows.relative_positions(), place.heads];
        let pairs = windows.area().pow(2);
        let index = TensorData::new(windows.relative_position_index(), [pairs]);
        Self {
            qkv: init.linear("qkv", dim, 3 * dim, block.qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            relative_position_bias_table: init.trunc_normal("relative_position_bias_table", table),
            index: Tensor::from_data(index, init.device()),
            masks,
            mixer: size.blocks.attention.init(&place, &init.child("mixer")),
            windows,
            place,
        }
    }

    /// The keys that are hidden: padding, and for a mechanism that ranks keys without the bias also those that a
    /// shift hides.
    ///
    /// # Shapes
    ///
    /// `[1, windows, area, area]`.
    fn hidden(&self, windows: Windows, masks: Masks) -> Option<Tensor<4, Bool>> {
        let (windows, area) = (windows.count(), windows.area());
        let shift = masks.shift.filter(|_| !self.mixer.ranks_with_bias());
        let shift = shift.map(|mask| mask.lower_elem(0.0).reshape([1, windows, area, area]));
        match (shift, masks.padding) {
            (Some(shift), Some(padding)) => Some(shift.bool_or(padding)),
            (shift, padding) => shift.or(padding),
        }
    }

    /// The sum that is added to the scores, in f32 like the scores: the biases of the relative positions, and the
    /// mask of a shift.
    ///
    /// # Shapes
    ///
    /// `[1, heads, area, area]`, or with a mask `[1, windows * heads, area, area]`.
    fn bias(&self, windows: Windows, mask: Option<&Tensor<4>>) -> Tensor<4> {
        let table = self.relative_position_bias_table.val();
        let (windows, area) = (windows.count(), windows.area());
        let heads = self.place.heads;
        let bias = table.select(0, self.index.clone()).transpose();
        let Some(mask) = mask else {
            return bias.reshape([1, heads, area, area]);
        };
        let bias = bias.reshape([1, 1, heads, area * area]);
        let bias = bias + mask.clone();
        bias.reshape([1, windows * heads, area, area])
    }
}

impl SelfAttention<4> for WindowAttention {
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to `[batch, windows, area, dim]`.
    fn mix(&self, map: Tensor<4>, pass: Pass<'_>) -> Tensor<4> {
        let on = self.windows.on(pass.grid);
        let device = map.device();
        let masks = self.masks.of(on, &device, || Masks::new(on, &device));
        let x = on.cut(map);
        let [batch, windows, area, dim] = x.dims();

        // All windows attend at once, each as an image; the sum that is added to their scores is one tensor for the whole batch, and
        // without a mask one for all windows.
        let qkv = linear(&self.qkv, x.reshape([batch * windows, area, dim]));
        let score = Score {
            bias: Some(self.bias(on, masks.shift.as_ref())),
            mask: self.hidden(on, masks),
        };
        let context = Context {
            score,
            windows,
            ..self.place.context(pass.phase)
        };
        let heads = self.place.heads;
        pass.watch.probabilities(|| {
            let [q, k, _] = split_windows(qkv.clone(), heads, windows);
            self.mixer.probabilities(q, k, &context)
        });
        let mixed = self.mixer.attend_packed(qkv, heads, context);
        mixed.reshape([batch, windows, area, dim])
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }

    fn project(
        &self,
        mixed: Tensor<4>,
        residual: Option<Residual<4>>,
        factors: Option<Tensor<1>>,
        pass: Pass<'_>,
    ) -> Tensor<4> {
        let windows = self.windows.on(pass.grid);
        let projected = linear(&scaled(&self.proj, factors), mixed);
        plus(windows.join(projected), residual)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;
    use kvt_attention::{AttentionConfig, KnnConfig, Neighbors, Selection};
    use kvt_ops::{Key, Phase};

    use super::*;
    use crate::backbone::Ask;
    use crate::family::common::CommonConfig;
    use crate::family::stages::StagesConfig;
    use crate::swin::SwinConfig;

    /// The attention of a shifted block, on maps of 4 x 4 tokens of 8 channels.
    fn shifted(attention: AttentionConfig, device: &Device) -> WindowAttention {
        let config = SwinConfig {
            common: CommonConfig::imagenet(8),
            patch_size: 2,
            embed_dim: 8,
            window_size: 2,
            stages: StagesConfig {
                depth: vec![2],
                num_heads: vec![2],
                attention: vec![attention],
            },
        };
        let size = config.stages().next().unwrap();
        let init = Init::new(device, Key::new(3));
        WindowAttention::new(&init, &size, size.windows.shifted(), MaskCache::default())
    }

    /// The attention on a map of 4 x 4 tokens.
    fn forward(attention: &WindowAttention, map: Tensor<4>) -> Tensor<4> {
        let pass = Ask::default().pass(0, [4, 4], Phase::Eval);
        attention.project(attention.mix(map, pass), None, None, pass)
    }

    /// A map with a number added to its first row.
    fn map(first: f32, device: &Device) -> Tensor<4> {
        let map: Vec<f32> = (0..4 * 4 * 8)
            .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0 + if i < 32 { first } else { 0.0 })
            .collect();
        Tensor::from_data(TensorData::new(map, [1, 4, 4, 8]), device)
    }

    /// In a shifted block the last row of a map shares windows with the first, but is not its neighbour: the first
    /// row does not change the last, by whichever criterion keys are ranked.
    #[test]
    fn nothing_crosses_the_seam() {
        let device = Device::flex();
        for selection in [Selection::DotProduct, Selection::Euclidean] {
            let attention = shifted(
                AttentionConfig::Knn(KnnConfig {
                    selection,
                    ..KnnConfig::new(Neighbors::count(1).unwrap())
                }),
                &device,
            );
            let values = |first: f32| {
                let out = forward(&attention, map(first, &device)).into_data();
                let out: Vec<f32> = out.try_to_vec().unwrap();
                out
            };
            let (before, after) = (values(0.0), values(3.0));
            assert_ne!(before[..32], after[..32]);
            assert_eq!(before[96..], after[96..], "{selection:?}");
        }
    }

    /// Even if all keys are kept, a hidden one has no weight at all.
    #[test]
    fn no_gradient_crosses_the_seam() {
        let device = Device::flex().autodiff();
        let attention = shifted(AttentionConfig::dense(), &device);
        let map = map(0.0, &device).require_grad();
        let out = forward(&attention, map.clone());
        let last = out.narrow(1, 3, 1).powi_scalar(2).sum();
        let grad = map.grad(&last.backward()).unwrap().into_data();
        let grad: Vec<f32> = grad.try_to_vec().unwrap();
        assert!(grad[..32].iter().all(|x| *x == 0.0), "{:?}", &grad[..32]);
        assert!(grad[96..].iter().all(|x| *x != 0.0), "{:?}", &grad[96..]);
    }
}
