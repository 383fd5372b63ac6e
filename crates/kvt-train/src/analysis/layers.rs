//! The metrics of all layers over a data set.

use std::collections::BTreeMap;

use burn::tensor::Device;
use kvt_models::{BlockIndex, Model};

use super::{Analyzer, Estimate, Measure};
use crate::data::{Batch, DataError};
use crate::error::TrainError;

/// A block, and what was measured in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its place, from 1: blocks of all stages in their order.
    pub number: usize,
    /// Stage and block, as an observer is told.
    pub block: BlockIndex,
    /// What was measured. A block without attention weights has none of theirs, and keys that are not patches no nonlocality.
    pub measures: BTreeMap<Measure, Estimate>,
}

impl Layer {
    /// Images looked at.
    pub fn images(&self) -> u64 {
        let all = self.measures.values().map(|found| found.images);
        all.max().unwrap_or(0)
    }

    /// What was measured under a name.
    pub fn get(&self, measure: Measure) -> Option<Estimate> {
        self.measures.get(&measure).copied()
    }
}

/// The layers of a model on images; `progress` hears how many are done. Nothing but sums is kept of an image.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, or the device fails.
pub fn analyze(
    model: &Model,
    batches: impl Iterator<Item = Result<Batch, DataError>>,
    device: &Device,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Layer>, TrainError> {
    let device = device.clone().inner();
    let mut analyzer = Analyzer::default();
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
