//! A training step in all processes of a job, compared with one in a single process.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::running::ready;
use super::timing::{Rounds, Timing, time};
use super::{BenchError, ModelCase};
use kvt_train::engine::Processes;

/// The measurements. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScalingMeasurement {
    /// `dense` or `knn`.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// Images per process in a step.
    pub batch: usize,
    /// Number of processes.
    pub processes: usize,
    /// Rank of LoRA's factors; 0 if the weights themselves are trained.
    pub lora_rank: usize,
    /// Parameters that are trained: with LoRA its factors and the head.
    pub trained: usize,
    /// A step of the first process, while the others wait.
    pub alone: Timing,
    /// A step of all processes with one micro-batch each.
    pub together: Timing,
    /// The part of it that the first process spent on sums over the processes and on waiting for the others.
    pub communication: Timing,
    /// Images per second of all processes.
    pub images_per_second: f64,
    /// Fraction of the throughput that as many independent processes would have: `alone / together`.
    pub efficiency: f64,
}

/// Times the cases in turn, round by round: first the first process by itself, then all processes. `progress` is called with
/// the number of completed rounds. All processes must call it, with the same `all`.
///
/// # Errors
/// If a model cannot be built, the device fails, or a process is lost.
pub fn scaling(
    cases: &[ModelCase],
    device: &Device,
    all: &Processes,
    rounds: Rounds,
    progress: impl FnMut(usize),
) -> Result<Vec<ScalingMeasurement>, BenchError> {
    let world = all.world();
    let new = |case| ready(case, device);
    let running = cases.iter().map(new).collect::<Result<Vec<_>, _>>()?;
    // Separate weights: those of the joint steps remain identical in all processes.
    let apart = cases
        .iter()
        .map(|case| world.is_first().then(|| new(case)).transpose());
    let apart = apart.collect::<Result<Vec<_>, _>>()?;
    let mut both: Vec<_> = running.into_iter().zip(apart).collect();
    let single = Processes::alone();
    let times = rounds.in_turn(&mut both, progress, |(running, apart)| {
        // All processes wait until all are ready.
        world.gather(0.0)?;
        let alone = match apart {
            Some(running) => time(device, || running.update(&single))?,
            None => 0.0,
        };
        world.gather(0.0)?;
        all.waited();
        let together = time(device, || running.update(all))?;
        Ok([alone, together, 1e3 * all.waited()])
    })?;
    let records = cases.iter().zip(&both).zip(times);
    Ok(records
        .map(|((case, (running, _)), times)| record(case, running.trained(), world.size(), times))
        .collect())
}

fn record(
    case: &ModelCase,
    trained: usize,
    processes: usize,
    [alone, together, communication]: [Timing; 3],
) -> ScalingMeasurement {
    let images = (case.batch * processes) as f64;
    ScalingMeasurement {
        kind: case.kind.clone(),
        model: case.config.name(),
        batch: case.batch,
        processes,
        lora_rank: case.lora.rank,
        trained,
        images_per_second: 1e3 * images / together.median,
        efficiency: alone.median / together.median,
        alone,
        together,
        communication,
    }
}
