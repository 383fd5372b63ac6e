//! Twenty steps with the whole recipe as in PyTorch and timm: mixup and CutMix in all modes, erasing before and after mixing,
//! label smoothing, AdamW, warm-up and cosine, clipping, an average of the weights.
//!
//! `scripts/reference/recipe.py` writes the random numbers and the results; the start is the one of `trajectory.rs`.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::LoadOptions;
use kvt_models::{Model, ModelConfig};
use kvt_ops::Phase;
use kvt_train::augment::{Normalization, Patch};
use kvt_train::config::{Plan, load_plan};
use kvt_train::data::{DataError, DeviceBatch, Prepare};
use kvt_train::engine::{TrainError, TrainState, UpdateSettings};
use kvt_train::recipe::mix::{Blend, Mixing, Rect, write_patches};
use kvt_train::recipe::{Ema, LossConfig, Optimizer, Position, Rates};
use kvt_train::run::Metric;
use kvt_train::splits::Splits;
use kvt_train::task::{EvalData, Measured, Setup, Task, build_model};

use crate::support::{Golden, Workspace, assert_each_close, read_weights};
use crate::trajectory;

/// The random numbers of a step.
struct Drawn {
    mixing: Mixing,
    patches: Vec<Vec<Patch>>,
}

/// Classification, with random numbers from a file instead of keys.
struct Given {
    steps: Vec<Drawn>,
    normalization: Normalization,
    loss: LossConfig,
}

impl Task for Given {
    type Network = Model;
    type Target = u32;

    const METRICS: &'static [Metric] = &[Metric::LOSS];
    const BEST: Metric = Metric::LOSS;

    fn model(_: &Plan, _: &Splits) -> Result<ModelConfig, TrainError> {
        unreachable!("the test makes the state")
    }

    fn start(_: &mut Setup<'_>) -> Result<(Self, Model), TrainError> {
        unreachable!("the test makes the state")
    }

    fn prepare(_: &Plan, _: &Splits) -> Result<Arc<dyn Prepare<u32>>, DataError> {
        unreachable!("the test makes the batches")
    }

    fn loss(
        &mut self,
        model: &Model,
        mut batch: DeviceBatch,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let Drawn { mixing, patches } = &self.steps[at.step as usize];
        let images = batch.views.swap_remove(0);
        let [count, _, height, width] = images.dims();
        let images = match at.step % 2 {
            0 => mixing.images(write_patches(images, patches)),
            _ => write_patches(mixing.pixels(images, &self.normalization), patches),
        };
        let own = mixing.own_shares(count, (height, width));
        let logits = model.forward(images, phase);
        let (classes, device) = (logits.dims()[1], logits.device());
        let targets = self
            .loss
            .targets(batch.targets.chunks(1), Some(&own), classes, &device);
        Ok(self.loss.of(logits, targets))
    }

    fn evaluate(
        &self,
        _: &Model,
        _: &mut EvalData<'_>,
        _: &Device,
    ) -> Result<Measured, TrainError> {
        panic!("nothing is evaluated")
    }
}

fn drawn(golden: &Golden, step: usize, images: usize) -> Drawn {
    let rows = golden.f32s(&format!("draws.{step}"));
    let blends = rows.chunks_exact(6).map(|row| match row[0] as u32 {
        0 => Blend::Keep,
        1 => Blend::Mixup { own: row[1] },
        _ => Blend::CutMix {
            rect: Rect {
                top: row[2] as usize,
                left: row[3] as usize,
                height: row[4] as usize,
                width: row[5] as usize,
            },
        },
    });
    let blends: Vec<Blend> = blends.collect();
    let boxes = golden.bytes(&format!("boxes.{step}"));
    let (boxes, _) = boxes.as_chunks::<4>();
    let boxes: Vec<usize> = boxes
        .iter()
        .map(|b| u32::from_le_bytes(*b) as usize)
        .collect();
    let values = golden.f32s(&format!("patches.{step}"));
    let mut values = values.into_iter().map(|value| value as f32);
    let mut patches = vec![Vec::new(); images];
    for numbers in boxes.chunks_exact(5) {
        let &[image, top, left, height, width] = numbers else {
            panic!("five numbers");
        };
        patches[image].push(Patch {
            top,
            left,
            height,
            width,
            values: values.by_ref().take(3 * height * width).collect(),
        });
    }
    assert_eq!(values.next(), None);
    Drawn {
        mixing: Mixing(blends),
        patches,
    }
}

#[test]
fn the_whole_recipe_is_pytorchs() {
    let golden = Golden::read("kvt-train/tests/golden/recipe.safetensors");
    let start = Golden::read("kvt-train/tests/golden/trajectory.safetensors");
    let workspace = Workspace::empty();
    start.write_weights(&workspace.path("init.safetensors"));
    let dense = trajectory::golden("dense");
    workspace.write("golden.toml", trajectory::config(&dense.config));
    let plan = load_plan(
        &workspace.path("golden.toml"),
        &["data.path=\"x\"".to_owned()],
    )
    .unwrap();

    let device = Device::flex().autodiff();
    let config = plan.model.config(Some(5)).unwrap();
    let model = build_model(&plan, &config, &device).unwrap();
    let weights = read_weights(&workspace.path("init.safetensors"));
    let (model, _) = model.load(&weights, LoadOptions::default()).unwrap();
    let order = start.i64s("order");
    let order: Vec<&[i64]> = order.chunks(plan.train.batch_size).collect();
    let normalization = Normalization::from(&plan.augment);
    let mut state = TrainState {
        optimizer: Optimizer::new(&plan.optim, &model),
        ema: Some(Ema::new(&model, [])),
        loss_scale: None,
        network: model,
        task: Given {
            steps: (0..order.len())
                .map(|step| drawn(&golden, step, plan.train.batch_size))
                .collect(),
            normalization: normalization.clone(),
            loss: plan.loss.clone(),
        },
    };
    let (pixels, labels) = (start.bytes("pixels"), start.i64s("labels"));
    let normalization = &normalization;
    let batch = |indices: &[i64]| {
        let images = indices.iter().flat_map(|&image| {
            let image = pixels.chunks(32 * 32 * 3).nth(image as usize).unwrap();
            (0..3).flat_map(move |channel| {
                let (mean, std) = (normalization.mean[channel], normalization.std[channel]);
                let levels = image.iter().skip(channel).step_by(3);
                levels.map(move |level| (f32::from(*level) / 255.0 - mean as f32) / std as f32)
            })
        });
        let images: Vec<f32> = images.collect();
        let images = TensorData::new(images, [indices.len(), 3, 32, 32]);
        DeviceBatch {
            views: vec![Tensor::from_data(images, &device)],
            targets: indices.iter().map(|&i| labels[i as usize] as u32).collect(),
            indices: indices.iter().map(|&i| i as u32).collect(),
        }
    };

    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for (step, (indices, lr)) in (0..).zip(order.iter().zip(golden.f32s("lrs"))) {
        let settings = UpdateSettings {
            seed: 0,
            rates: Rates {
                lr,
                weight_decay: plan.optim.weight_decay,
            },
            clip: plan.optim.clip(),
            ema_decay: golden.config["ema_decay"].as_f64().unwrap(),
        };
        let at = Position {
            step,
            ..Position::default()
        };
        let update = state.update([Ok(batch(indices))], at, settings).unwrap();
        losses.push(update.loss);
        norms.push(update.grad_norm);
    }
    assert_each_close("loss", &losses, &golden.f32s("losses"), 1e-5);
    assert_each_close("norm", &norms, &golden.f32s("grad_norms"), 1e-4);

    let images = batch(order[0]).views.swap_remove(0).inner();
    let ema = state.ema.unwrap();
    for (name, network) in [("logits", &state.network), ("ema_logits", ema.network())] {
        let logits = burn::module::Module::valid(network).forward(images.clone(), Phase::Eval);
        let found: Vec<f32> = logits.into_data().try_to_vec().unwrap();
        let expected = golden.f32s(name);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error < 1e-5, "{name}: {found}, not {expected}");
        }
    }
}
