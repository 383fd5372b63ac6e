//! The pre-norm transformer block of all families.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, layer_norm};

use super::{Activation, Init, Mlp, drop_path, drops_paths};
use crate::summary::BlockSize;

/// What mixes the tokens of a block, of `D - 2` dimensions: 3 for a sequence, 4 for a map.
pub(crate) trait SelfAttention<const D: usize>: Module {
    /// # Shapes
    ///
    /// `[batch, .., dim]` to the same.
    fn forward(&self, x: Tensor<D>, phase: Phase) -> Tensor<D>;

    /// `residual` and the output for `x`, in one pass where that can be done.
    ///
    /// # Shapes
    ///
    /// `[batch, .., dim]` each.
    fn forward_add(&self, x: Tensor<D>, residual: Tensor<D>, phase: Phase) -> Tensor<D> {
        residual + self.forward(x, phase)
    }
}

impl SelfAttention<3> for MultiHeadAttention {
    fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        self.forward(x, phase)
    }

    fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>, phase: Phase) -> Tensor<3> {
        self.forward_add(x, residual, phase)
    }
}

/// Self-attention and an MLP, each behind a layer norm and around a residual.
#[derive(Module, Debug)]
pub(crate) struct Block<A: Module> {
    norm1: LayerNorm,
    attn: A,
    norm2: LayerNorm,
    mlp: Mlp,
    #[module(skip)]
    pub(crate) drop_path: f64,
    #[module(skip)]
    norm_epsilon: f64,
}

/// What the blocks of a family have in common, besides their attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockKind {
    /// Epsilon of the layer norms.
    pub norm_epsilon: f64,
    /// Of the MLP.
    pub activation: Activation,
}

impl<A: Module> Block<A> {
    /// A block whose branches are dropped at the rate `drop_path`.
    pub(crate) fn new(
        init: &Init<'_>,
        kind: BlockKind,
        size: BlockSize,
        attn: A,
        drop_path: f64,
    ) -> Self {
        let BlockSize { dim, hidden, .. } = size;
        Self {
            norm1: init.layer_norm(dim, kind.norm_epsilon),
            attn,
            norm2: init.layer_norm(dim, kind.norm_epsilon),
            mlp: Mlp::new(&init.child("mlp"), dim, hidden, kind.activation),
            drop_path,
            norm_epsilon: kind.norm_epsilon,
        }
    }

    /// # Shapes
    ///
    /// `[batch, .., dim]` to the same.
    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>, phase: Phase) -> Tensor<D>
    where
        A: SelfAttention<D>,
    {
        let (rate, attn) = (self.drop_path, phase.named("attn"));
        let normed = layer_norm(&self.norm1, x.clone(), self.norm_epsilon);
        // What is not dropped is added while it is made.
        let x = if drops_paths(rate, phase) {
            let branch = self.attn.forward(normed, attn);
            x + drop_path(branch, rate, phase.named("drop_path1"))
        } else {
            self.attn.forward_add(normed, x, attn)
        };
        let normed = layer_norm(&self.norm2, x.clone(), self.norm_epsilon);
        let phase = phase.named("drop_path2");
        self.mlp.forward_add(normed, x, rate, phase)
    }
}

/// All blocks of a stage, one after the other.
///
/// # Shapes
///
/// `[batch, .., dim]` to the same.
pub(crate) fn forward_blocks<const D: usize, A: SelfAttention<D>>(
    blocks: &[Block<A>],
    x: Tensor<D>,
    phase: Phase,
) -> Tensor<D> {
    let phase = phase.named("blocks");
    (0..)
        .zip(blocks)
        .fold(x, |x, (i, block)| block.forward(x, phase.child(i)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::{Arc, Mutex};

    use burn::tensor::Device;
    use kvt_attention::{AttentionConfig, Place};
    use kvt_ops::Key;

    use super::*;

    /// An attention that only writes down its phases.
    #[derive(Module, Debug)]
    struct Recorder {
        #[module(skip)]
        phases: Arc<Mutex<Vec<Phase>>>,
    }

    impl SelfAttention<3> for Recorder {
        fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
            self.phases.lock().unwrap().push(phase);
            x
        }
    }

    /// What a block drops is no other block's, and another step's is another.
    #[test]
    fn every_block_and_step_has_a_phase_of_its_own() {
        let device = Device::flex();
        let init = Init::new(&device, Key::new(0));
        let phases = Arc::new(Mutex::new(Vec::new()));
        let kind = BlockKind {
            norm_epsilon: 1e-6,
            activation: Activation::Gelu,
        };
        let size = BlockSize {
            dim: 4,
            hidden: 8,
            qkv_bias: true,
        };
        for rate in [0.0, 0.5] {
            let block = |_| {
                let phases = phases.clone();
                Block::new(&init, kind, size, Recorder { phases }, rate)
            };
            let blocks: Vec<_> = (0..3).map(block).collect();
            let run = |phase| {
                phases.lock().unwrap().clear();
                let _ = forward_blocks(&blocks, Tensor::<3>::ones([2, 3, 4], &device), phase);
                phases.lock().unwrap().clone()
            };
            assert_eq!(run(Phase::Eval), [Phase::Eval; 3]);
            let steps = [1, 2].map(|step| run(Phase::Train(Key::new(step))));
            let mut all: Vec<Phase> = steps.concat();
            assert_eq!(all.len(), 6);
            while let Some(phase) = all.pop() {
                assert!(phase != Phase::Eval && !all.contains(&phase), "{phase:?}");
            }
        }
    }

    /// Samples that leave the blocks as they came: all of their branches were dropped.
    fn untouched(depth: usize, phase: Phase) -> usize {
        let device = Device::flex();
        let init = Init::new(&device, Key::new(1));
        let size = BlockSize {
            dim: 4,
            hidden: 8,
            qkv_bias: true,
        };
        let kind = BlockKind {
            norm_epsilon: 1e-6,
            activation: Activation::Gelu,
        };
        let block = || {
            let place = Place::new(2, size.dim, 1);
            let attn = MultiHeadAttention::new(&init, &AttentionConfig::dense(), place, true);
            Block::new(&init, kind, size, attn, 0.5)
        };
        let blocks: Vec<_> = (0..depth).map(|_| block()).collect();
        let x: Vec<f32> = (0..SAMPLES * 2 * 4)
            .map(|i| (i * 29 % 97) as f32 / 48.0)
            .collect();
        let x = Tensor::<1>::from_data(x.as_slice(), &device).reshape([SAMPLES, 2, 4]);
        let out = forward_blocks(&blocks, x.clone(), phase);
        let [x, out] = [x, out].map(|x| x.into_data().try_to_vec::<f32>().unwrap());
        let samples = x.chunks(2 * 4).zip(out.chunks(2 * 4));
        samples.filter(|(x, out)| x == out).count()
    }

    const SAMPLES: usize = 4096;

    /// One branch in two is dropped: both of a block in a quarter of the samples, and all four of two
    /// blocks in a sixteenth. Were two dropped together, it would be twice as many.
    #[test]
    fn every_branch_is_dropped_on_its_own() {
        for (depth, share) in [(1, 0.25), (2, 0.0625)] {
            let count = untouched(depth, Phase::Train(Key::new(depth as u64))) as f64;
            let samples = SAMPLES as f64;
            // Six standard deviations of a binomial.
            let deviation = 6.0 * (samples * share * (1.0 - share)).sqrt();
            assert!(
                (count - samples * share).abs() < deviation,
                "{count} of {samples} after {depth} blocks"
            );
        }
        assert_eq!(untouched(1, Phase::Eval), 0);
    }
}
