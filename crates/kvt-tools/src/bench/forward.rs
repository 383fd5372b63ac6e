//! A forward pass in evaluation mode, as `kvt eval`, `predict` and `logits` make it: without autodiff, and without a training
//! step between two passes, which would leave other data in the caches.

use burn::tensor::{Device, Tensor};
use kvt_models::{ImgSize, Model, Network as _};
use kvt_ops::{Key, Phase};
use serde::{Deserialize, Serialize};

use super::timing::{Rounds, Timing, time};
use super::{BenchError, ModelCase, mebibytes, peak_of};
use kvt_train::table::cells;

/// The measurements. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwardMeasurement {
    /// The kind of attention.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// Images of a pass.
    pub batch: usize,
    /// Size of an image in pixels: the side of a square, or height and width.
    pub img_size: ImgSize,
    /// Keys kept per query, by stage.
    pub k: Vec<usize>,
    /// The type of matrix products.
    pub dtype: String,
    /// A pass, from images on the device to logits on it: the median.
    pub forward_ms: f64,
    /// The spread of the passes.
    pub forward: Timing,
    /// Images per second.
    pub images_per_second: f64,
    /// Rate, counting two operations for each MAC.
    pub gflops: f64,
    /// Memory that a pass used in addition to model and images; the first pass of a fresh process.
    pub peak_bytes: Option<u64>,
}

/// A model in evaluation mode, with images that are reused in every pass.
struct Running {
    model: Model,
    images: Tensor<4>,
}

impl Running {
    fn new(case: &ModelCase, device: &Device) -> Result<Self, BenchError> {
        let device = device.clone().inner();
        let model = case.config.init(&device, Key::new(0))?;
        Ok(Self {
            model: model.with_precision(case.precision),
            images: case.images(&device),
        })
    }

    fn forward(&self) -> Tensor<2> {
        self.model.forward(self.images.clone(), Phase::Eval)
    }
}

impl ModelCase {
    /// The memory of one forward pass in this process.
    ///
    /// # Errors
    /// If the model cannot be built or the device fails.
    pub fn forward_peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        let running = Running::new(self, device)?;
        // Parameters are made when they are first read.
        let _ = running.model.parameters();
        peak_of(device, || Ok(running.forward()))
    }
}

/// Times the cases in turn, round by round; `progress` is called with the number of completed rounds.
///
/// # Errors
/// If a model cannot be built or the device fails.
pub fn forward(
    cases: &[ModelCase],
    device: &Device,
    rounds: Rounds,
    progress: impl FnMut(usize),
) -> Result<Vec<ForwardMeasurement>, BenchError> {
    let running = cases.iter().map(|case| Running::new(case, device));
    let mut running = running.collect::<Result<Vec<_>, _>>()?;
    let times = rounds.in_turn(&mut running, progress, |running| {
        Ok([time(device, || Ok(running.forward()))?])
    })?;
    let records = cases.iter().zip(times);
    Ok(records.map(|(case, times)| record(case, times)).collect())
}

fn record(case: &ModelCase, [forward]: [Timing; 1]) -> ForwardMeasurement {
    let images = case.batch as f64;
    let macs = case.config.summary().macs.total() as f64;
    ForwardMeasurement {
        kind: case.kind.clone(),
        model: case.config.name(),
        batch: case.batch,
        img_size: case.config.img_size(),
        k: case.kept(),
        dtype: case.precision.name().to_owned(),
        forward_ms: forward.median,
        forward,
        images_per_second: 1e3 * images / forward.median,
        gflops: 2.0 * macs * images / forward.median / 1e6,
        peak_bytes: None,
    }
}

impl ForwardMeasurement {
    /// The columns of a table of measurements.
    pub const COLUMNS: [&str; 10] = [
        "kind", "k", "dtype", "batch", "ms", "low ms", "high ms", "images/s", "GFLOP/s", "peak MiB",
    ];

    /// The row of a measurement: milliseconds are the median and both quartiles.
    pub fn row(&self) -> [String; 10] {
        let k: Vec<String> = self.k.iter().map(usize::to_string).collect();
        let Timing { median, low, high } = self.forward;
        let [median, low, high] = [median, low, high].map(|ms| format!("{ms:.2}"));
        let [images, gflops] =
            [self.images_per_second, self.gflops].map(|rate| format!("{rate:.1}"));
        cells([
            &self.kind,
            &k.join("/"),
            &self.dtype,
            &self.batch,
            &median,
            &low,
            &high,
            &images,
            &gflops,
            &mebibytes(self.peak_bytes),
        ])
    }
}
