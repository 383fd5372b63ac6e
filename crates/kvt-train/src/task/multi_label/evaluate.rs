//! The evaluation of several labels for each image. `train` and `eval` use it.

use burn::tensor::Device;
use kvt_models::Model;

use super::LabelScores;
use crate::data::{Batch, DataError, Source};
use crate::error::TrainError;
use crate::task::evaluate::{in_order, predict, see_all};
use crate::world::World;

/// How well the labels of images are found. Images are counted one by one, so the result does not depend on the batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelEvaluation {
    /// Number of images evaluated.
    pub images: usize,
    /// How many of them have no label.
    pub unlabelled: usize,
    /// Mean binary cross-entropy over the images and the classes, without label smoothing.
    pub loss: f64,
    /// Class by class.
    pub scores: LabelScores,
}

/// The sum over the classes of the binary cross-entropies of an image's logits.
pub(super) fn binary(row: &[f32], labels: &[u32]) -> f64 {
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let all = row.iter().map(|&logit| softplus(logit.into()));
    let own = labels.iter().filter_map(|&label| row.get(label as usize));
    all.sum::<f64>() - own.map(|&logit| f64::from(logit)).sum::<f64>()
}

/// Evaluates a model on all batches of a loader of a source, if it could start, with a threshold for each class: all processes get
/// what all have seen. `progress` is called with the number of completed images.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read or has a label, or the device fails: in all processes.
pub fn evaluate_labels(
    model: &Model,
    batches: Result<impl Iterator<Item = Result<Batch, DataError>>, DataError>,
    (source, thresholds): (&Source, &[f64]),
    device: &Device,
    world: &dyn World,
    progress: impl FnMut(usize),
) -> Result<LabelEvaluation, TrainError> {
    let (mut indices, mut logits) = (Vec::<u32>::new(), Vec::<f32>::new());
    see_all(world, batches, progress, |batch: Batch| {
        for images in batch.views {
            let (of_images, _) = predict(model, images, device)?;
            logits.extend(of_images);
        }
        indices.extend(batch.indices);
        Ok(indices.len())
    })?;
    if !world.is_alone() {
        // Shares are consecutive: in the order of the ranks, images are in the order of a single process. Both kinds of numbers are
        // exact in f64.
        let all = in_order(world, indices.iter().map(|&index| index.into()).collect())?;
        indices = all.iter().map(|&index| index as u32).collect();
        let all = in_order(world, logits.iter().map(|&logit| logit.into()).collect())?;
        logits = all.iter().map(|&logit| logit as f32).collect();
    }
    let images = indices.len();
    if images == 0 {
        return Err(TrainError::NothingEvaluated);
    }
    let labels = indices.iter().map(|&index| source.labels(index));
    let labels: Vec<&[u32]> = labels.collect();
    let unlabelled = labels.iter().filter(|labels| labels.is_empty()).count();
    if unlabelled == images {
        return Err(TrainError::NoLabels(images));
    }
    let rows = logits.chunks_exact(thresholds.len().max(1));
    // Image by image, so that the order of summation is always the same.
    let losses = rows.zip(&labels).map(|(row, labels)| binary(row, labels));
    Ok(LabelEvaluation {
        images,
        unlabelled,
        loss: losses.sum::<f64>() / logits.len() as f64,
        scores: LabelScores::of(&logits, &labels, thresholds),
    })
}
