//! The evaluation of segmentation: image by image, since padding to a common size would change what windows and sub-sampled keys
//! see. `train`, `eval` and `predict` all use it.

use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_data::{IGNORED, LabelMap};
use kvt_models::dense::upernet::UperNet;
use kvt_ops::{Phase, resize_bilinear};

use super::{SegmentConfig, SegmentCounts, SegmentEval};
use crate::data::{Batch, DataError, View};
use crate::error::TrainError;
use crate::task::evaluate::{in_order, see_all};
use crate::world::World;

/// The largest number of logits on the device at the size of the original image or of the network's input: 256 MiB.
const MOST_LOGITS: usize = 1 << 26;

/// Metrics over a whole split.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentEvaluation {
    /// Predicted and labelled classes of all pixels.
    pub counts: SegmentCounts,
    /// Number of images evaluated.
    pub images: usize,
    /// Mean cross-entropy over all labelled pixels, at the size of the labels.
    pub loss: f64,
}

/// Evaluates a network with so many classes on all batches of a loader, if it could start, of one image each: counts and losses of
/// the processes are summed. `progress` is called with the number of completed images.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, no pixel has a label, or the device fails: in all processes.
pub fn evaluate_segments(
    network: &UperNet,
    batches: Result<impl Iterator<Item = Result<Batch<LabelMap>, DataError>>, DataError>,
    of: (usize, &SegmentConfig),
    device: &Device,
    world: &dyn World,
    progress: impl FnMut(usize),
) -> Result<SegmentEvaluation, TrainError> {
    let (classes, config) = of;
    let (mut counts, mut losses) = (SegmentCounts::new(classes), Vec::new());
    see_all(world, batches, progress, |batch: Batch<LabelMap>| {
        let image = batch.views.into_iter().next();
        if let (Some(image), Some(target)) = (image, batch.targets.first()) {
            let labels = Some(target.labels.as_slice());
            let (prediction, loss) = classify(network, image, target.size, labels, config, device)?;
            counts.add(&prediction, &target.labels);
            losses.push(loss);
        }
        Ok(losses.len())
    })?;
    // Image by image, in the order of summation of a single process.
    let losses = in_order(world, losses)?;
    let counts = counts.summed(world)?;
    match (losses.len(), counts.pixels()) {
        (0, _) => Err(TrainError::NothingEvaluated),
        (images, 0) => Err(TrainError::NothingLabelled(images, "evaluate")),
        (images, pixels) => Ok(SegmentEvaluation {
            counts,
            images,
            loss: losses.iter().sum::<f64>() / pixels as f64,
        }),
    }
}

/// The class of every pixel of a prepared image, row by row at its `original` size (height, width); `None` if logits are not finite.
///
/// # Errors
/// If the image does not match the model or the device fails.
pub fn predict_labels(
    network: &UperNet,
    image: View,
    original: (usize, usize),
    config: &SegmentConfig,
    device: &Device,
) -> Result<Option<Vec<u8>>, TrainError> {
    let (classes, loss) = classify(network, image, original, None, config, device)?;
    Ok(loss.is_finite().then_some(classes))
}

/// The classes of an image's pixels, and the sum of the cross-entropies of those with a label. It is not finite if a logit of theirs
/// is not, or, without labels, any logit.
fn classify(
    network: &UperNet,
    image: View,
    original: (usize, usize),
    labels: Option<&[u8]>,
    config: &SegmentConfig,
    device: &Device,
) -> Result<(Vec<u8>, f64), TrainError> {
    let device = device.clone().inner();
    let image = image.upload(&device);
    let [_, _, height, width] = image.dims();
    let logits = match config.eval {
        SegmentEval::Whole => whole(network, image)?,
        SegmentEval::Slide => slide(network, &image, config)?,
    };
    let original @ [rows, columns] = <[usize; 2]>::from(original);
    let labels = labels.map(|labels| {
        let labels: Vec<i32> = labels.iter().map(|&label| label.into()).collect();
        let data = TensorData::new(labels, [1, 1, rows, columns]);
        Tensor::<4, Int>::from_data(data, &device)
    });
    let classes = logits.dims()[1];
    let pixels = (rows * columns).max(height * width).max(1);
    let step = (MOST_LOGITS / pixels).clamp(1, classes);
    let mut seen: Option<Seen> = None;
    for first in (0..classes).step_by(step) {
        let part = logits.clone().narrow(1, first, step.min(classes - first));
        // Twice: to the size of the input, and then to that of the original.
        let part = resize_bilinear(resize_bilinear(part, [height, width]), original);
        let part = Seen::of(part, first, labels.as_ref());
        seen = Some(match seen {
            Some(seen) => seen.and(part),
            None => part,
        });
    }
    let Some(seen) = seen else {
        return Ok((Vec::new(), 0.0));
    };
    let losses = match labels {
        Some(labels) => {
            let losses = seen.largest + seen.sum.log() - seen.own;
            let ignored = labels.equal_elem(i32::from(IGNORED));
            losses.mask_fill(ignored, 0.0)
        }
        None => seen.sum * 0.0,
    };
    let loss = losses.sum().try_into_vec_as::<f64>()?;
    let loss = loss.first().copied().unwrap_or(f64::NAN);
    Ok((seen.class.try_into_vec_as()?, loss))
}

/// What is known of every pixel from the logits of some classes, `[1, 1, height, width]` each.
struct Seen {
    /// The class with the largest logit: the first of equal ones.
    class: Tensor<4, Int>,
    /// That logit.
    largest: Tensor<4>,
    /// The sum of the exponentials of all logits minus the largest.
    sum: Tensor<4>,
    /// The logit of the label; 0 if it is not among these classes.
    own: Tensor<4>,
}

impl Seen {
    /// From the logits of classes from `first` on, `[1, classes, height, width]`.
    fn of(logits: Tensor<4>, first: usize, labels: Option<&Tensor<4, Int>>) -> Self {
        let classes = logits.dims()[1];
        let (largest, class) = logits.clone().max_dim_with_indices(1);
        let own = match labels {
            Some(labels) => {
                let places = labels.clone() - first as i64;
                let is_here = places
                    .clone()
                    .greater_equal_elem(0)
                    .bool_and(places.clone().lower_elem(classes as i64));
                let places = places.clamp(0, classes as i64 - 1);
                let own = logits.clone().gather(1, places);
                own.mask_fill(is_here.bool_not(), 0.0)
            }
            None => largest.zeros_like(),
        };
        Self {
            class: class + first as i64,
            sum: (logits - largest.clone()).exp().sum_dim(1),
            largest,
            own,
        }
    }

    /// With later classes.
    fn and(self, later: Self) -> Self {
        let is_later = later.largest.clone().greater(self.largest.clone());
        let largest = self.largest.clone().max_pair(later.largest.clone());
        let scaled = |seen: Tensor<4>, of: Tensor<4>| seen * (of - largest.clone()).exp();
        Self {
            class: self.class.mask_where(is_later, later.class),
            sum: scaled(self.sum, self.largest) + scaled(later.sum, later.largest),
            own: self.own + later.own,
            largest,
        }
    }
}

/// The logits of a whole image, at a quarter of its size.
fn whole(network: &UperNet, image: Tensor<4>) -> Result<Tensor<4>, TrainError> {
    let [_, _, height, width] = image.dims();
    network.pyramid.check_size([height, width])?;
    Ok(network.forward(image, Phase::Eval).main)
}

/// The logits of an image, at its size: the mean over the windows of each pixel.
fn slide(
    network: &UperNet,
    image: &Tensor<4>,
    config: &SegmentConfig,
) -> Result<Tensor<4>, TrainError> {
    let [_, _, height, width] = image.dims();
    let ([rows, columns], [down, right]) = (config.eval_crop, config.eval_stride);
    let mut sum: Option<Tensor<4>> = None;
    let mut counts = Tensor::<4>::zeros([1, 1, height, width], &image.device());
    for top in starts(height, rows, down) {
        for left in starts(width, columns, right) {
            let (rows, columns) = (rows.min(height), columns.min(width));
            let window = image.clone().narrow(2, top, rows).narrow(3, left, columns);
            let logits = resize_bilinear(whole(network, window)?, [rows, columns]);
            let all = sum.unwrap_or_else(|| {
                Tensor::zeros([1, logits.dims()[1], height, width], &image.device())
            });
            let place =
                |channels: usize| [0..1, 0..channels, top..top + rows, left..left + columns];
            let at = place(logits.dims()[1]);
            sum = Some(all.clone().slice_assign(at.clone(), all.slice(at) + logits));
            let at = place(1);
            counts = counts
                .clone()
                .slice_assign(at.clone(), counts.slice(at) + 1.0);
        }
    }
    let sum = sum.unwrap_or_else(|| image.clone());
    Ok(sum / counts)
}

/// The first rows (or columns) of the windows along an axis: `stride` apart, the last one moved back inside.
fn starts(length: usize, window: usize, stride: usize) -> impl Iterator<Item = usize> {
    let last = length.saturating_sub(window);
    (0..=last.div_ceil(stride.max(1))).map(move |number| (number * stride).min(last))
}

#[cfg(test)]
mod tests;
