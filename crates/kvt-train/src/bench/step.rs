//! One training step: forward, loss, backward, clipping and the optimizer.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase};
use serde::{Deserialize, Serialize};

use super::timing::{Rounds, Timing, time};
use super::{BenchError, ModelCase, peak_of};
use crate::config::Plan;
use crate::data::DeviceBatch;
use crate::engine::{Processes, Reader, Started, TrainState, Update, UpdateSettings};
use crate::recipe::{Clip, LossScale, OptimConfig, Optimizer, Position, Rates};
use crate::task::Classify;

/// The measurements. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepMeasurement {
    /// `dense` or `knn`.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// Images per step.
    pub batch: usize,
    /// Side of an image in pixels.
    pub img_size: usize,
    /// Keys kept per query, by stage.
    pub k: Vec<usize>,
    /// The type of matrix products.
    pub dtype: String,
    /// Only the forward pass, as in evaluation: the median.
    pub forward_ms: f64,
    /// The whole step: the median.
    pub step_ms: f64,
    /// The spread of the forward pass.
    pub forward: Timing,
    /// The spread of the step.
    pub step: Timing,
    /// Images per second of training.
    pub images_per_second: f64,
    /// Rate of the step, counting the backward pass as twice the forward pass.
    pub gflops: f64,
    /// Memory rate of only the parameters, gradients and optimizer moments: two reads of the parameters, one write of
    /// the gradients, and the reads and writes of AdamW.
    pub gbps: f64,
    /// Memory that a step used in addition to model and images; the first step of a fresh process.
    pub peak_bytes: Option<u64>,
}

/// Settings of a step; their values do not matter.
const SETTINGS: UpdateSettings = UpdateSettings {
    seed: 1,
    rates: Rates {
        lr: 1e-4,
        weight_decay: 0.05,
    },
    clip: Clip::Norm(1.0),
    ema_decay: 0.0,
};

/// A model in training, with images that are reused in every step.
pub(super) struct Running {
    state: TrainState<Classify>,
    images: Tensor<4>,
    batch: DeviceBatch,
    reader: Option<Reader>,
}

impl Running {
    /// A model whose next step is made, not skipped.
    pub(super) fn new(case: &ModelCase, device: &Device) -> Result<Self, BenchError> {
        let mut running = Self::fresh(case, device)?;
        // A skipped update takes less time than one that is made.
        if running.state.loss_scale.is_some() {
            running.make_one()?;
        }
        Ok(running)
    }

    /// A model before its first step. With a loss scale, some steps are skipped at first.
    fn fresh(case: &ModelCase, device: &Device) -> Result<Self, BenchError> {
        let device = device.clone().autodiff();
        let model = case
            .config
            .init(&device, Key::new(0))?
            .with_precision(case.precision);
        let images = case.images(&device);
        let labels = (0..case.batch).map(|image| (image % case.config.num_classes()) as u32);
        Ok(Self {
            batch: DeviceBatch {
                views: vec![images.clone()],
                targets: labels.collect(),
                indices: (0..u32::MAX).take(case.batch).collect(),
            },
            images,
            reader: Reader::of(&device),
            state: TrainState {
                optimizer: Optimizer::new(&OptimConfig::default(), &model),
                network: model,
                task: Classify::new(&Plan::default(), None),
                ema: None,
                loss_scale: LossScale::of(case.precision),
            },
        })
    }

    /// Steps until one is made.
    fn make_one(&mut self) -> Result<(), BenchError> {
        while !self.update(&Processes::alone())?.made {}
        Ok(())
    }

    fn step(&mut self) -> Result<(), BenchError> {
        self.step_with(&Processes::alone())
    }

    /// A step with one micro-batch of each process.
    pub(super) fn step_with(&mut self, processes: &Processes) -> Result<(), BenchError> {
        self.update(processes).map(|_| ())
    }

    fn update(&mut self, processes: &Processes) -> Result<Update, BenchError> {
        let (batch, start) = (self.batch.clone(), Position::default());
        let reader = self.reader.as_ref();
        let started = self
            .state
            .start(processes, [Ok(batch)], start, SETTINGS, reader)?;
        // As in training, except that it waits: each step is measured separately.
        Ok(match started {
            Started::Done(update) => update,
            Started::OnItsWay(pending) => self.state.finish(pending)?,
        })
    }
}

impl ModelCase {
    /// The memory of one step in this process.
    ///
    /// # Errors
    /// If the model cannot be built or the device fails.
    pub fn step_peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        // The steps that look for the loss scale are measured, too: the allocator keeps their memory,
        // so that a step after them would seem to need none.
        let mut running = Running::fresh(self, device)?;
        peak_of(device, || running.make_one())
    }
}

/// Times the cases in turn, round by round; `progress` is called with the number of completed rounds.
///
/// # Errors
/// If a model cannot be built or the device fails.
pub fn step(
    cases: &[ModelCase],
    device: &Device,
    rounds: Rounds,
    mut progress: impl FnMut(usize),
) -> Result<Vec<StepMeasurement>, BenchError> {
    let mut running = cases
        .iter()
        .map(|case| Running::new(case, device))
        .collect::<Result<Vec<_>, _>>()?;
    let mut forward = vec![Vec::new(); cases.len()];
    let mut step = vec![Vec::new(); cases.len()];
    for round in 0..rounds.warmup + rounds.timed {
        for (number, running) in running.iter_mut().enumerate() {
            let model = running.state.network.valid();
            let images = running.images.clone().inner();
            let ahead = time(device, || Ok(model.forward(images, Phase::Eval)))?;
            let whole = time(device, || running.step())?;
            if round >= rounds.warmup {
                forward[number].push(ahead);
                step[number].push(whole);
            }
        }
        progress(round + 1);
    }
    let records = cases.iter().zip(forward).zip(step);
    Ok(records
        .map(|((case, forward), step)| record(case, Timing::of(forward), Timing::of(step)))
        .collect())
}

fn record(case: &ModelCase, forward: Timing, step: Timing) -> StepMeasurement {
    let summary = case.config.summary();
    let images = case.batch as f64;
    let parameters = (size_of::<f32>() * summary.params) as f64;
    StepMeasurement {
        kind: case.kind.clone(),
        model: case.config.name(),
        batch: case.batch,
        img_size: case.config.img_size(),
        k: case.kept(),
        dtype: case.precision.name().to_owned(),
        forward_ms: forward.median,
        step_ms: step.median,
        forward,
        step,
        images_per_second: 1e3 * images / step.median,
        gflops: 6.0 * summary.macs.total() as f64 * images / step.median / 1e6,
        gbps: 10.0 * parameters / step.median / 1e6,
        peak_bytes: None,
    }
}
