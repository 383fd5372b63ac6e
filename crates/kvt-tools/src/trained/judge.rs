//! The evaluation of trained networks on labelled images.

use super::{Images, Trained, TrainedError, Warn};
use kvt_data::Loader;
use kvt_train::error::TrainError;
use kvt_train::judge::Judgement;
use kvt_train::splits::some_batches;
use kvt_train::task::{self, Evaluation};
use kvt_train::world::Alone;

/// What `evaluate` makes of the batches of images; warns of those that were skipped. `progress` gets the number of images done and of
/// all.
pub(super) fn judged<T: Send + 'static, E>(
    images: &Images,
    mut batches: Loader<T>,
    progress: &mut dyn FnMut(usize, usize),
    warn: Warn<'_>,
    evaluate: impl FnOnce(&mut Loader<T>, &mut dyn FnMut(usize)) -> Result<E, TrainError>,
) -> Result<E, TrainedError> {
    let all = images.source.samples.len();
    progress(0, all);
    let evaluation = evaluate(&mut batches, &mut |done| progress(done, all));
    for warning in batches.warnings() {
        warn(&warning);
    }
    Ok(evaluation?)
}

/// Refuses a loss that is not finite: the weights are finite, but logits computed from them may overflow.
pub(super) fn check_loss(images: usize, loss: f64) -> Result<(), TrainedError> {
    if loss.is_finite() {
        Ok(())
    } else {
        Err(TrainedError::Loss { images, loss })
    }
}

impl Trained {
    /// Evaluates the model on images, and warns of those that were skipped; `judgement` collects the result of each image. `progress`
    /// gets the number of images done and of all.
    ///
    /// # Errors
    /// If no image can be read, the device fails, or the logits are not finite.
    pub fn judge(
        &self,
        images: &Images,
        judgement: &mut Judgement,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<Evaluation, TrainedError> {
        let batches = some_batches(&self.plan, &images.source, &self.transform()?, 0)?;
        let (device, among) = (&self.device.device, images.among.as_deref());
        let evaluation = judged(images, batches, progress, warn, |batches, done| {
            task::evaluate(
                &self.model,
                Ok(batches),
                device,
                &Alone,
                among,
                done,
                |batch, logits| judgement.hear(batch, logits),
            )
        })?;
        check_loss(evaluation.images, evaluation.loss)?;
        Ok(evaluation)
    }
}
