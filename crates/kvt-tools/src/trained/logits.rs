//! Logits as a file holds them.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_models::Model;
use kvt_models::weights::StateDict;
use kvt_ops::Phase;

use super::{Images, Trained, TrainedError};
use kvt_data::OnError;
use kvt_train::error::TrainError;
use kvt_train::splits::some_batches;
use kvt_train::task::{LABELS, LOGITS, origin, predict, write_weights};

/// Images of one forward pass.
const BATCH: usize = 16;

/// The logits `[n, classes]` of the normalised `images` `[n, channels, height, width]` in a file; `path` names it in errors.
///
/// # Errors
/// If there are no such images, the model does not take them, or the device fails.
pub fn of_images(
    model: &Model,
    file: &StateDict,
    path: &Path,
    device: &Device,
) -> Result<TensorData, TrainedError> {
    let images = file
        .get("images")
        .ok_or_else(|| TrainedError::NoTensor(path.to_owned()))?;
    let shape: [usize; 4] = images.shape().to_vec().try_into().map_err(|found| {
        let path = path.to_owned();
        TrainedError::Shape { path, found }
    })?;
    model.check_input(shape)?;
    let images = Tensor::<4>::from_data(images.clone(), device);
    let mut logits = Vec::new();
    for start in (0..shape[0]).step_by(BATCH) {
        let batch = images.clone().narrow(0, start, BATCH.min(shape[0] - start));
        let values = model.forward(batch, Phase::Eval).try_into_vec_as::<f32>();
        logits.extend(values.map_err(|error| TrainError::Execution(error.to_string()))?);
    }
    let classes = model.config().num_classes();
    Ok(TensorData::new(logits, [shape[0], classes]))
}

/// The number of rows with logits that are not finite, of `[rows, classes]` in f32.
#[must_use]
pub fn count_broken(logits: &[f32], classes: usize) -> usize {
    let rows = logits.chunks(classes.max(1));
    let is_broken = |row: &&[f32]| !row.iter().all(|x| x.is_finite());
    rows.filter(is_broken).count()
}

impl Trained {
    /// Writes the logits of images, with their labels and what identifies them: the file of `distill.logits`. With `half`, the
    /// logits have 16 bits.
    ///
    /// # Errors
    /// If an image cannot be read, logits are not finite, or the file cannot be written.
    pub fn write_logits(
        mut self,
        images: &Images,
        half: bool,
        path: &Path,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), TrainedError> {
        // Row n is image n, so no image may be left out.
        self.plan.data.on_error = OnError::Fail;
        let source = &images.source;
        let (all, classes) = (source.samples.len(), self.model.config().num_classes());
        let (mut logits, mut labels) = (Vec::new(), Vec::new());
        progress(0, all);
        for batch in some_batches(&self.plan, source, &self.transform()?, 0)? {
            let batch = batch?;
            for images in batch.views {
                logits.extend(predict(&self.model, images, &self.device.device)?.0);
            }
            labels.extend(batch.targets.into_iter().map(i64::from));
            progress(labels.len(), all);
        }
        let broken = count_broken(&logits, classes);
        if broken > 0 {
            return Err(TrainedError::Logits {
                broken,
                images: all,
            });
        }
        let logits = TensorData::new(logits, [all, classes]);
        let mut out = StateDict::default();
        out.insert(
            LOGITS,
            if half {
                logits.convert_dtype(DType::F16)
            } else {
                logits
            },
        );
        out.insert(LABELS, TensorData::new(labels, [all]));
        let origin: BTreeMap<String, String> = origin(source).map_err(std::io::Error::from)?;
        Ok(write_weights(path, &out, &origin)?)
    }
}
