//! A trained network for segmentation, the images that it is judged on, and images that it paints.

mod paint;
mod results;

use kvt_models::dense::upernet::UperNet;

pub use self::paint::Seen;
pub use self::results::SegmentResults;
use super::dense::TrainedDense;
use super::judge::{check_loss, judged};
use super::{Images, TrainedError, Warn};
use kvt_train::splits::prepared_batches;
use kvt_train::task::{SegmentEvaluation, eval_images, evaluate_segments};
use kvt_train::world::Alone;

/// A network for segmentation that is ready to predict.
pub type Segmenter = TrainedDense<UperNet>;

impl Segmenter {
    /// Evaluates the network on images, one by one, and warns of those that were skipped. `progress` gets the number of images done
    /// and of all.
    ///
    /// # Errors
    /// If no image can be read, the device fails, or the logits are not finite.
    pub fn judge(
        &self,
        images: &Images,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<SegmentEvaluation, TrainedError> {
        let prepare = eval_images(&self.plan)?;
        let batches = prepared_batches(&self.plan, &images.source, prepare, 1, (0, 1))?;
        let (device, of) = (
            &self.device.device,
            (self.classes.len(), &self.plan.segment),
        );
        let evaluation = judged(images, batches, progress, warn, |batches, done| {
            evaluate_segments(&self.network, Ok(batches), of, device, &Alone, done)
        })?;
        check_loss(evaluation.images, evaluation.loss)?;
        Ok(evaluation)
    }
}
