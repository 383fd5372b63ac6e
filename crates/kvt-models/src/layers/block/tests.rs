#![expect(clippy::unwrap_used, reason = "tests")]
use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use kvt_attention::{AttentionConfig, Place};
use kvt_ops::Key;

use super::*;

/// An attention that only records its phases.
#[derive(Module, Debug)]
struct Recorder {
    #[module(skip)]
    phases: Arc<Mutex<Vec<Phase>>>,
}

impl SelfAttention<3> for Recorder {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        self.phases.lock().unwrap().push(pass.phase);
        x
    }

    fn proj(&self) -> &Linear {
        unreachable!("it has none")
    }

    fn project(
        &self,
        mixed: Tensor<3>,
        residual: Option<Residual<3>>,
        _: Option<Tensor<1>>,
        _: Pass<'_>,
    ) -> Tensor<3> {
        plus(mixed, residual)
    }
}

const KIND: BlockKind = BlockKind {
    norm_epsilon: 1e-6,
    activation: Activation::Gelu,
    scale: None,
};

fn pass(phase: Phase) -> Pass<'static> {
    Pass {
        phase,
        grid: [1, 1],
        watch: Watch::default(),
        precision: Default::default(),
        rotary: None,
    }
}

/// Every block and every step drops differently.
#[test]
fn every_block_and_step_has_a_phase_of_its_own() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(0));
    let phases = Arc::new(Mutex::new(Vec::new()));
    let size = BlockSize {
        dim: 4,
        hidden: 8,
        qkv_bias: true,
    };
    for rate in [0.0, 0.5] {
        let block = |_| {
            let phases = phases.clone();
            Block::new(&init, KIND, size, Recorder { phases }, rate)
        };
        let blocks: Vec<_> = (0..3).map(block).collect();
        let run = |phase| {
            phases.lock().unwrap().clear();
            let _ = forward_blocks(
                &blocks,
                Tensor::<3>::ones([2, 3, 4], &device),
                pass(phase),
                0,
            );
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

/// The number of samples that the blocks leave unchanged, since all of their branches were dropped.
fn untouched(depth: usize, phase: Phase) -> usize {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(1));
    let size = BlockSize {
        dim: 4,
        hidden: 8,
        qkv_bias: true,
    };
    let block = || {
        let place = Place::new(2, size.dim, 1);
        let attn = MultiHeadAttention::new(&init, &AttentionConfig::dense(), place, true);
        Block::new(&init, KIND, size, attn, 0.5)
    };
    let blocks: Vec<_> = (0..depth).map(|_| block()).collect();
    let x: Vec<f32> = (0..SAMPLES * 2 * 4)
        .map(|i| (i * 29 % 97) as f32 / 48.0)
        .collect();
    let x = Tensor::<1>::from_data(x.as_slice(), &device).reshape([SAMPLES, 2, 4]);
    let (out, _) = forward_blocks(&blocks, x.clone(), pass(phase), 0);
    let [x, out] = [x, out].map(|x| x.into_data().try_to_vec::<f32>().unwrap());
    let samples = x.chunks(2 * 4).zip(out.chunks(2 * 4));
    samples.filter(|(x, out)| x == out).count()
}

const SAMPLES: usize = 4096;

/// Half of the branches are dropped: both of a block in a quarter of the samples, and all four of two blocks in a
/// sixteenth. If two were dropped together, it would be twice as many.
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
