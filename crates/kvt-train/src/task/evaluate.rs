//! The common evaluation of classifiers: `train`, `eval` and `predict` all use it, so the number in the log equals the
//! number that `kvt eval` prints.

use burn::tensor::Device;
use kvt_models::Model;
use kvt_ops::Phase;

use crate::data::{Batch, DataError, View};
use crate::error::TrainError;
use crate::judge::{ClassRow, Correct, ranked};
use crate::world::{World, agree};

/// Accuracy and loss over a whole split. Images are counted one by one, so the result does not
/// depend on the batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Number of images evaluated.
    pub images: usize,
    /// Number of images whose best class is correct.
    pub top1: usize,
    /// Number of images whose class is among the best five.
    pub top5: usize,
    /// Mean cross-entropy, without label smoothing.
    pub loss: f64,
    /// Mean over the classes with images of the percentage that is predicted correctly: balanced accuracy.
    pub recall_percent: f64,
    /// Mean over the same classes of their F1, the harmonic mean of recall and precision, in percent. Images of others that are taken
    /// for one count against it.
    pub f1_percent: f64,
}

/// What is counted of some images.
#[derive(Debug, Default)]
struct Counted {
    images: u64,
    correct: Correct,
    /// The loss of each batch.
    losses: Vec<f64>,
    rows: Vec<ClassRow>,
}

impl Counted {
    /// Counts images by their logits, `[images, classes]` row by row.
    fn add(&mut self, logits: &[f32], targets: &[u32], classes: usize) {
        self.images += targets.len() as u64;
        self.rows.resize(classes, ClassRow::default());
        let images = || logits.chunks_exact(classes).zip(targets);
        for (row, &label) in images() {
            let best = ranked(row);
            self.correct.count(&best, label);
            ClassRow::count(&mut self.rows, label, best.first().copied());
        }
        let losses = images().map(|(row, &label)| cross_entropy(row, label));
        self.losses.push(losses.sum::<f64>());
    }

    /// All counts, in one order.
    fn counts(&mut self) -> impl Iterator<Item = &mut u64> {
        let rows = self.rows.iter_mut().flat_map(ClassRow::counts);
        let Correct { top1, top5 } = &mut self.correct;
        let total = [&mut self.images, top1, top5];
        total.into_iter().chain(rows)
    }
}

impl Evaluation {
    /// Top-1 accuracy in percent.
    pub fn top1_percent(&self) -> f64 {
        100.0 * self.top1 as f64 / self.images as f64
    }

    /// Top-5 accuracy in percent.
    pub fn top5_percent(&self) -> f64 {
        100.0 * self.top5 as f64 / self.images as f64
    }
}

/// Evaluates a model on all batches of a loader, if it could start: those of this process, whose counts and losses are summed with
/// those of the others. `progress` is called with the number of completed images, and `hear` with each batch and its logits,
/// `[images, classes]` row by row. `among` can restrict the choice of classes: it contains for each class whether it is allowed, and
/// the logits of the others are replaced by negative infinity.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, or the device fails: in all processes.
pub fn evaluate(
    model: &Model,
    batches: Result<impl Iterator<Item = Result<Batch, DataError>>, DataError>,
    device: &Device,
    world: &dyn World,
    among: Option<&[bool]>,
    progress: impl FnMut(usize),
    mut hear: impl FnMut(&Batch, &[f32]),
) -> Result<Evaluation, TrainError> {
    let mut counted = Counted::default();
    see_all(world, batches, progress, |mut batch: Batch| {
        for images in std::mem::take(&mut batch.views) {
            let (mut logits, classes) = predict(model, images, device)?;
            if let Some(among) = among {
                for row in logits.chunks_exact_mut(among.len()) {
                    for (logit, is_among) in row.iter_mut().zip(among) {
                        if !is_among {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
            hear(&batch, &logits);
            counted.add(&logits, &batch.targets, classes);
        }
        Ok(counted.images as usize)
    })?;
    // A process may have no image.
    let classes = model.config().num_classes();
    counted.rows.resize(classes, ClassRow::default());
    let mut sums: Vec<f64> = counted.counts().map(|count| *count as f64).collect();
    world.sum(&mut sums)?;
    let counts = counted.counts().zip(sums);
    counts.for_each(|(count, sum)| *count = sum as u64);
    // Batch by batch, in the order of summation of a single process.
    let losses = in_order(world, counted.losses)?;
    if counted.images == 0 {
        return Err(TrainError::NothingEvaluated);
    }
    Ok(Evaluation {
        images: counted.images as usize,
        top1: counted.correct.top1 as usize,
        top5: counted.correct.top5 as usize,
        loss: losses.iter().fold(0.0_f64, |sum, loss| sum + loss) / counted.images as f64,
        recall_percent: 100.0 * ClassRow::mean(&counted.rows, ClassRow::recall),
        f1_percent: 100.0 * ClassRow::mean(&counted.rows, ClassRow::f1),
    })
}

/// The numbers of all processes, in the order of their ranks.
pub(super) fn in_order(world: &dyn World, own: Vec<f64>) -> Result<Vec<f64>, TrainError> {
    let counts = world.gather(own.len() as f64)?;
    let before: f64 = counts.iter().take(world.rank()).sum();
    let mut all = vec![0.0; counts.iter().sum::<f64>() as usize];
    let places = all.iter_mut().skip(before as usize);
    places.zip(own).for_each(|(place, number)| *place = number);
    world.sum(&mut all)?;
    Ok(all)
}

/// Calls `see` for each batch of a loader, if it could start, and `progress` with the number of completed images that `see` returns.
///
/// # Errors
/// If one of them fails: in all processes.
pub(super) fn see_all<T>(
    world: &dyn World,
    batches: Result<impl Iterator<Item = Result<Batch<T>, DataError>>, DataError>,
    mut progress: impl FnMut(usize),
    mut see: impl FnMut(Batch<T>) -> Result<usize, TrainError>,
) -> Result<(), TrainError> {
    let own = batches.map_err(TrainError::from).and_then(|batches| {
        for batch in batches {
            progress(see(batch?)?);
        }
        Ok(())
    });
    agree(world, own)
}

/// The logits of some images on the host, `[images, classes]` row by row, and the number of classes.
///
/// # Errors
/// If the images do not match the model or the device fails.
pub fn predict(
    model: &Model,
    images: View,
    device: &Device,
) -> Result<(Vec<f32>, usize), TrainError> {
    let images = images.upload(&device.clone().inner());
    model.check_input(images.dims())?;
    let logits = model.forward(images, Phase::Eval);
    let classes = logits.dims()[1];
    Ok((logits.try_into_vec_as()?, classes))
}

/// `log sum_c exp(logit_c) - logit_label` in f64.
fn cross_entropy(logits: &[f32], label: u32) -> f64 {
    let max = logits.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
    let sum: f64 = logits.iter().map(|&x| f64::from(x - max).exp()).sum();
    let own = logits.get(label as usize).copied().unwrap_or(f32::NAN);
    sum.ln() - f64::from(own - max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_by_hand() {
        assert!((cross_entropy(&[0.0; 10], 3) - 10f64.ln()).abs() < 1e-12);
        // softmax([ln 3, 0]) = [3/4, 1/4]
        assert!((cross_entropy(&[3f32.ln(), 0.0], 1) - 4f64.ln()).abs() < 1e-6);
        assert!((cross_entropy(&[1000.0, 0.0], 1) - 1000.0).abs() < 1e-6);
        assert!(cross_entropy(&[f32::NAN, 0.0], 0).is_nan());
    }
}
