//! The evaluation of a trained model on labelled images.

use super::{Images, Trained, TrainedError, Warn};
use crate::error::TrainError;
use crate::judge::Judgement;
use crate::splits::eval_batches;
use crate::task::{Evaluation, evaluate_among};

impl Trained {
    /// Evaluates the model on images, and warns of those that were skipped; `judged` collects the result of each image. `progress`
    /// gets the number of images done and of all.
    ///
    /// # Errors
    /// If no image can be read, the device fails, or the logits are not finite.
    pub fn judge(
        &self,
        images: &Images,
        judged: &mut Judgement,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<Evaluation, TrainError> {
        let all = images.source.samples.len();
        let mut batches = eval_batches(&self.plan, &images.source, &self.transform()?)?;
        progress(0, all);
        let evaluation = evaluate_among(
            &self.model,
            &mut batches,
            &self.device.device,
            images.among.as_deref(),
            |done| progress(done, all),
            |batch, logits| judged.hear(batch, logits),
        );
        for skipped in batches.skipped() {
            warn(&skipped.to_string());
        }
        let evaluation = evaluation?;
        // The weights are finite, but logits computed from them may overflow.
        if !evaluation.loss().is_finite() {
            return Err(TrainedError::Loss {
                images: evaluation.images,
                loss: evaluation.loss(),
            }
            .into());
        }
        Ok(evaluation)
    }
}
