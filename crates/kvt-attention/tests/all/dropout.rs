//! Attention dropout in the module: its rate, its key, and nothing else.

use burn::tensor::{Device, Tensor};
use kvt_attention::{MultiHeadAttention, MultiHeadAttentionConfig};
use kvt_ops::{Key, Phase};

use crate::devices::{devices, tensor, values};
use crate::module::{identity, layer};
use crate::naive::worst;

const IMAGES: usize = 3;
const HEADS: usize = 2;
const TOKENS: usize = 50;
const WIDTH: usize = 8;
const RATE: f64 = 0.3;

/// A module whose weights are all the same, and whose values are all one: a channel of its output is the
/// sum of the weights that are left.
fn even(device: &Device, attn_drop: f64) -> MultiHeadAttention {
    let values = [[0.0; 2 * WIDTH].as_slice(), &[1.0; WIDTH]].concat();
    let bias = tensor(&values, [3 * WIDTH], device);
    let config = MultiHeadAttentionConfig::new(WIDTH, HEADS).with_dropout(attn_drop);
    let mut module = config.init(device).unwrap();
    module.qkv = layer(Tensor::zeros([WIDTH, 3 * WIDTH], device), Some(bias));
    module.proj = identity(WIDTH, device);
    module
}

fn output(device: &Device, attn_drop: f64, phase: Phase) -> Vec<f32> {
    let x = Tensor::ones([IMAGES, TOKENS, WIDTH], device);
    values(even(device, attn_drop).forward(x, phase))
}

#[test]
fn a_module_drops_its_weights_at_its_rate_while_it_trains() {
    for (name, device) in devices() {
        let device = device.autodiff();
        let out = output(&device, RATE, Phase::Train(Key::new(3)));
        // A kept weight is 1 / TOKENS / (1 - RATE).
        let left: Vec<f64> = out
            .iter()
            .map(|x| f64::from(*x) * TOKENS as f64 * (1.0 - RATE))
            .collect();
        for x in &left {
            assert!((x - x.round()).abs() < 1e-3, "{name}: {x} weights are left");
        }
        // The channels of a head have one mask; heads, queries and images have their own.
        let heads: Vec<&[f64]> = left.chunks(WIDTH / HEADS).collect();
        assert!(
            heads
                .iter()
                .all(|head| head.iter().all(|x| (x - head[0]).abs() < 1e-3))
        );
        let drawn = heads.len() as f64;
        let mean = heads.iter().map(|head| head[0]).sum::<f64>() / drawn;
        // Six standard deviations of a mean of binomials.
        let expected = TOKENS as f64 * (1.0 - RATE);
        let bound = 6.0 * (expected * RATE / drawn).sqrt();
        assert!(
            (mean - expected).abs() < bound,
            "{name}: {mean} of {TOKENS}"
        );
        let differ = |a: usize, b: usize| (0..TOKENS).any(|i| heads[a + i] != heads[b + i]);
        assert!(differ(0, 1), "{name}: heads and queries");
        assert!(differ(0, TOKENS * HEADS), "{name}: images");
    }
}

#[test]
fn a_module_drops_nothing_in_evaluation_or_at_rate_zero() {
    for (name, device) in devices() {
        let train = Phase::Train(Key::new(3));
        for (rate, phase) in [(RATE, Phase::Eval), (0.0, train), (0.0, Phase::Eval)] {
            for x in output(&device, rate, phase) {
                assert!((x - 1.0).abs() < 1e-5, "{name} {rate} {phase:?}: {x}");
            }
        }
    }
}

/// The same key draws the same on every device; different blocks, steps and purposes draw differently.
#[test]
fn what_a_module_drops_is_keyed() {
    let run = |device: &Device, phase| output(device, RATE, phase);
    let step = |number| Phase::Train(Key::new(3).child(number));
    let cpu = Device::flex();
    let phases = [
        step(0),
        step(1),
        step(0).child(0),
        step(0).child(1),
        step(0).named("attn"),
        Phase::Train(Key::new(4).child(0)),
    ];
    let outputs = phases.map(|phase| run(&cpu, phase));
    for (i, a) in outputs.iter().enumerate() {
        assert_eq!(a, &run(&cpu, phases[i]), "{:?}", phases[i]);
        for (j, b) in outputs[..i].iter().enumerate() {
            assert_ne!(a, b, "{:?} and {:?}", phases[i], phases[j]);
        }
    }
    for (name, device) in devices() {
        let worst = worst(&run(&device, step(0)), &outputs[0]);
        assert!(worst < 1e-5, "{name}: {worst}");
    }
}

/// What another thread draws from the generator of the device changes nothing.
#[test]
fn what_is_dropped_does_not_depend_on_who_else_draws() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let device = Device::flex();
    let run = || output(&device, RATE, Phase::Train(Key::new(3)));
    let alone = run();
    let done = AtomicBool::new(false);
    let together: Vec<bool> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                draw_from_the_device();
            }
        });
        let same = (0..200).map(|_| run() == alone).collect();
        done.store(true, Ordering::Relaxed);
        same
    });
    assert!(together.iter().all(|same| *same));
}

#[expect(clippy::disallowed_methods, reason = "what others may do")]
fn draw_from_the_device() {
    let device = Device::flex();
    device.seed(1);
    let uniform = burn::tensor::Distribution::Default;
    let _ = values(Tensor::<1>::random([16], uniform, &device));
}
