//! One training step: forward, loss, backward, clipping and the optimizer.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use kvt_models::ImgSize;
use serde::{Deserialize, Serialize};

use super::running::{fresh, ready};
use super::timing::{Rounds, Timing, time};
use super::{BenchError, ModelCase, peak_of};
use kvt_train::engine::Processes;

/// The measurements. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepMeasurement {
    /// `dense` or `knn`.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// Images per step.
    pub batch: usize,
    /// Size of an image in pixels: the side of a square, or height and width.
    pub img_size: ImgSize,
    /// Keys kept per query, by stage.
    pub k: Vec<usize>,
    /// The type of matrix products.
    pub dtype: String,
    /// Rank of LoRA's factors; 0 if the weights themselves are trained.
    pub lora_rank: usize,
    /// Parameters that are trained: with LoRA its factors and the head.
    pub trained: usize,
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
    /// Rate of the step, counting the backward pass as twice the forward pass; with LoRA as once, which is the least: a layer
    /// without factors computes no gradient of its weights.
    pub gflops: f64,
    /// Memory rate of only the parameters, gradients and optimizer moments: two reads of the parameters, and for those that are trained
    /// one write of the gradients, and the reads and writes of AdamW.
    pub gbps: f64,
    /// Memory that a step used in addition to model and images; the first step of a fresh process.
    pub peak_bytes: Option<u64>,
}

impl ModelCase {
    /// The memory of one step in this process.
    ///
    /// # Errors
    /// If the model cannot be built or the device fails.
    pub fn step_peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        // The steps that look for the loss scale are measured, too: the allocator keeps their memory,
        // so that a step after them would seem to need none.
        let mut running = fresh(self, device)?;
        peak_of(device, || running.make_one())
    }
}

/// Times the cases in turn, round by round; `progress` is called with the number of completed rounds.
///
/// # Errors
/// If a model cannot be built or the device fails; [`BenchError::Stopped`] before the first step after `stop` is set.
pub fn step(
    cases: &[ModelCase],
    device: &Device,
    rounds: Rounds,
    stop: &AtomicBool,
    progress: impl FnMut(usize),
) -> Result<Vec<StepMeasurement>, BenchError> {
    let running = cases.iter().map(|case| ready(case, device));
    let mut running = running.collect::<Result<Vec<_>, _>>()?;
    let times = rounds.in_turn(&mut running, progress, |running| {
        if stop.load(Ordering::Relaxed) {
            return Err(BenchError::Stopped);
        }
        let ahead = running.ahead();
        let ahead = time(device, &ahead)?;
        let whole = time(device, || running.update(&Processes::alone()))?;
        Ok([ahead, whole])
    })?;
    let records = cases.iter().zip(&running).zip(times);
    Ok(records
        .map(|((case, running), times)| record(case, running.trained(), times))
        .collect())
}

fn record(case: &ModelCase, trained: usize, [forward, step]: [Timing; 2]) -> StepMeasurement {
    let (params, macs) = case.size();
    let images = case.batch as f64;
    let lora_rank = case.lora.rank;
    let operations = if lora_rank > 0 { 4.0 } else { 6.0 };
    let moved = (size_of::<f32>() * (2 * params + 8 * trained)) as f64;
    StepMeasurement {
        kind: case.kind.clone(),
        model: case.config.name(),
        batch: case.batch,
        img_size: case.img_size(),
        k: case.kept(),
        dtype: case.precision.name().to_owned(),
        lora_rank,
        trained,
        forward_ms: forward.median,
        step_ms: step.median,
        forward,
        step,
        images_per_second: 1e3 * images / step.median,
        gflops: operations * macs as f64 * images / step.median / 1e6,
        gbps: moved / step.median / 1e6,
        peak_bytes: None,
    }
}
