//! From an image on disk to the batch: each stage on one thread, and the loader as in training.

use std::time::Instant;

use serde::Serialize;

use super::{BenchError, Timing};
use kvt_data::{DataError, DecodeError, Loader, Picture, Source, epoch_order, image_key, view_key};
use kvt_train::config::Plan;
use kvt_train::splits::{Splits, image_limits};

/// The case to measure.
#[derive(Clone, Copy, Debug)]
pub struct LoaderCase {
    /// Images per round: those of the training split in the order of the first epoch, repeated if there are fewer.
    pub images: usize,
    /// Threads of the loader.
    pub workers: usize,
    /// Number of timed rounds.
    pub rounds: usize,
}

/// The measurements.
#[derive(Clone, Debug, Serialize)]
pub struct LoaderMeasurement {
    /// Images per round.
    pub images: usize,
    /// Views per image.
    pub views: usize,
    /// Threads of the loader.
    pub workers: usize,
    /// Milliseconds per image, with all of its views, on one thread, by stage.
    pub stages: Vec<Stage>,
    /// Images per second of all stages on one thread.
    pub images_per_second_alone: f64,
    /// Images per second of only reading and decoding on one thread: the upper limit for these files.
    pub decode_limit: f64,
    /// Images per second of the loader with its threads.
    pub loader: Timing,
    /// Images per second of the loader per thread.
    pub images_per_second_per_core: f64,
}

/// A part of the work for an image.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// The name of the stage.
    pub name: &'static str,
    /// Milliseconds per image.
    pub ms: f64,
    /// Its fraction of the time of all stages.
    pub share: f64,
}

const STAGES: [&str; 4] = ["read", "decode", "crop, resize, flip, augment", "normalise"];

/// Times the stages and the loader in turn, round by round; `progress` is called with the number of completed rounds.
///
/// # Errors
/// If an image cannot be read, or the loader does not start.
pub fn loader(
    plan: &Plan,
    splits: &Splits,
    case: LoaderCase,
    mut progress: impl FnMut(usize),
) -> Result<LoaderMeasurement, BenchError> {
    let mut stages: [Vec<f64>; 4] = Default::default();
    let mut rates = Vec::new();
    // One extra round warms the page cache and the allocator.
    for round in 0..=case.rounds {
        let seconds = alone(plan, splits, case.images)?;
        let rate = together(plan, splits, case)?;
        if round > 0 {
            for (all, seconds) in stages.iter_mut().zip(seconds) {
                all.push(1e3 * seconds / case.images as f64);
            }
            rates.push(rate);
        }
        progress(round);
    }
    let ms = stages.map(|runs| Timing::of(runs).median);
    let total: f64 = ms.iter().sum();
    let stage = |(name, ms): (&'static str, f64)| {
        let share = ms / total;
        Stage { name, ms, share }
    };
    let loader = Timing::of(rates);
    Ok(LoaderMeasurement {
        images: case.images,
        views: splits.train_views(plan, |_| ()).transforms.len(),
        workers: case.workers,
        stages: STAGES.into_iter().zip(ms).map(stage).collect(),
        images_per_second_alone: 1e3 / total,
        decode_limit: 1e3 / (ms[0] + ms[1]),
        loader,
        images_per_second_per_core: loader.median / case.workers.max(1) as f64,
    })
}

/// The indices of the images of a round.
fn order(plan: &Plan, source: &Source, images: usize) -> Vec<u32> {
    let epoch = epoch_order(source.samples.len(), 0, plan.seed, plan.data.shuffle);
    epoch.into_iter().cycle().take(images).collect()
}

/// The seconds of each stage for all images of a round, on this thread.
fn alone(plan: &Plan, splits: &Splits, images: usize) -> Result<[f64; 4], BenchError> {
    let (source, limits) = (&splits.train, image_limits(plan));
    let views = splits.train_views(plan, |_| ());
    let transforms = &views.transforms;
    let Some(only) = transforms.first() else {
        return Ok([0.0; 4]);
    };
    let empty = transforms.iter().map(|transform| {
        let (height, width) = transform.size();
        vec![0.0; transform.channels() * height * width]
    });
    let mut buffers: Vec<Vec<f32>> = empty.collect();
    let mut seconds = [0.0; 4];
    for index in order(plan, source, images) {
        let Some(sample) = source.samples.get(index as usize) else {
            continue;
        };
        let key = image_key(plan.seed, 0, index);
        let unreadable = |reason| {
            let path = sample.path.clone();
            DataError::from(DecodeError { path, reason })
        };
        let mut last = Instant::now();
        let mut spend = |stage: usize| {
            let now = Instant::now();
            if let Some(sum) = seconds.get_mut(stage) {
                *sum += (now - last).as_secs_f64();
            }
            last = now;
        };
        let bytes = source.bytes(sample, limits).map_err(unreadable)?;
        spend(0);
        let look = |size| only.looks_at(size, key);
        let look = views.parts.then_some(&look as &dyn Fn(_) -> _);
        let mut picture = Some(source.look(&bytes, limits, look).map_err(unreadable)?);
        spend(1);
        for (number, (transform, out)) in transforms.iter().zip(&mut buffers).enumerate() {
            let key = view_key(key, number);
            // The last view does not need a copy of the image.
            let copy = if number + 1 == transforms.len() {
                picture.take()
            } else {
                picture.clone()
            };
            let image = match copy {
                Some(Picture::Whole(image)) => transform.pixels(image, key),
                Some(Picture::Part(part)) => transform.part_pixels(&part, key),
                None => break,
            }
            .map_err(DataError::from)?;
            spend(2);
            transform.normalize(&image, key, out);
            spend(3);
        }
    }
    Ok(seconds)
}

/// Images per second of the loader.
fn together(plan: &Plan, splits: &Splits, case: LoaderCase) -> Result<f64, BenchError> {
    let prepare = splits.train_views(plan, |sample| sample.label);
    let mut config = splits.train_loading(plan, prepare, 0, 0);
    config.order = order(plan, &splits.train, case.images);
    config.workers = case.workers;
    let start = Instant::now();
    let mut images = 0;
    for batch in Loader::start(config)? {
        images += batch?.len();
    }
    Ok(images as f64 / start.elapsed().as_secs_f64())
}
