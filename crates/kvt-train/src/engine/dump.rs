//! Keeps the inputs of a step that was not finite, for inspection.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kvt_models::Network;
use kvt_models::weights::{self, StateDict};

use super::TrainError;
use crate::data::{Batch, DataError, Source};
use crate::run::RunDir;
use crate::task::MODEL;
use kvt_data::fs::write_atomic;

/// Writes the weights before the step, and its micro-batches with their files and labels. The batches are read again by their
/// position in the epoch: keyed augmentation gives the same pixels, so that training need not keep them. Returns the folder.
///
/// # Errors
/// If something cannot be written, or an image can no longer be read; files written before stay.
pub(super) fn dump<T>(
    run: &RunDir,
    step: u64,
    network: &impl Network,
    source: &Source,
    micro_batches: impl Iterator<Item = Result<Batch<T>, DataError>>,
) -> Result<PathBuf, TrainError> {
    run.check()?;
    let folder = run.path().join(format!("nonfinite-step-{step}"));
    fs_err::create_dir_all(&folder)?;
    let metadata = BTreeMap::new();
    let write = |name: &str, tensors: &StateDict| {
        weights::write(&folder.join(name), tensors, &metadata).map_err(TrainError::from)
    };
    write(MODEL, &network.state_dict()?)?;
    let mut images = StateDict::default();
    let mut files = Vec::new();
    for (number, batch) in micro_batches.enumerate() {
        let batch = batch?;
        let samples = batch
            .indices
            .iter()
            .filter_map(|&index| source.samples.get(index as usize));
        // JSON is text: a path that is not UTF-8 is written as far as it can be displayed.
        files.extend(samples.map(|sample| (sample.path.display().to_string(), sample.label)));
        for (view, pixels) in batch.views.into_iter().enumerate() {
            let name = match view {
                0 => format!("images.{number}"),
                view => format!("images.{number}.view.{view}"),
            };
            images.insert(name, pixels.into_data());
        }
    }
    write("batch.safetensors", &images)?;
    write_atomic(&folder.join("batch.json"), |file| {
        Ok(serde_json::to_writer_pretty(file, &files)?)
    })?;
    Ok(folder)
}
