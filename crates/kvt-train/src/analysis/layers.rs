//! The metrics of all layers over a data set.

use std::collections::BTreeMap;

use burn::tensor::Device;
use kvt_models::{BlockIndex, Model};

use super::tiles::Together;
use super::{Analyzer, Estimate, Measure};
use crate::data::{Batch, DataError};
use crate::error::TrainError;

/// A block and its metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its number, from 1, counted through the blocks of all stages.
    pub number: usize,
    /// Its stage and block, as observers receive them.
    pub block: BlockIndex,
    /// The metrics. A block without attention weights lacks theirs, and a block whose keys are not patches lacks nonlocality.
    pub measures: BTreeMap<Measure, Estimate>,
    /// What queries and heads keep together; empty unless the analyzer was asked for it.
    pub(super) together: BTreeMap<Together, Estimate>,
}

impl Layer {
    /// The number of images that were measured.
    pub fn images(&self) -> u64 {
        let all = self.measures.values().map(|found| found.images);
        all.max().unwrap_or(0)
    }

    /// The estimate of a measure, if there is one.
    pub fn get(&self, measure: Measure) -> Option<Estimate> {
        self.measures.get(&measure).copied()
    }
}

/// Measures the layers of a model on images with a new analyzer; `progress` receives the number of images done. Only sums over the images are kept.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, or the device fails.
pub fn analyze(
    mut analyzer: Analyzer,
    model: &Model,
    batches: impl Iterator<Item = Result<Batch, DataError>>,
    device: &Device,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Layer>, TrainError> {
    let device = device.clone().inner();
    let mut done = 0;
    for batch in batches {
        for view in batch?.views {
            let images = view.upload(&device);
            done += images.dims()[0];
            analyzer.add(&model.backbone, model.precision(), images)?;
        }
        progress(done);
    }
    match done {
        0 => Err(TrainError::NothingEvaluated),
        _ => Ok(analyzer.layers()),
    }
}
