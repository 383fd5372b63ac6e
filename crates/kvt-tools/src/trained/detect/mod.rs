//! A trained network for detection, the images that it is judged on, and images on which it shows what it finds.

mod spotted;

use kvt_models::dense::mask_rcnn::MaskRcnn;

pub use self::spotted::{LEAST_SCORE, Spotted};
use super::dense::TrainedDense;
use super::judge::judged;
use super::{Images, TrainedError, Warn};
use kvt_train::splits::prepared_batches;
use kvt_train::task::{DetectEvaluation, eval_objects, evaluate_objects};
use kvt_train::world::Alone;

/// A network for detection that is ready to find objects.
pub type Detector = TrainedDense<MaskRcnn>;

impl Detector {
    /// Evaluates the network on images, one by one, and warns of those that were skipped. `progress` gets the number of images done
    /// and of all.
    ///
    /// # Errors
    /// If no image can be read, none has an object, or the device fails.
    pub fn judge(
        &self,
        images: &Images,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<DetectEvaluation, TrainedError> {
        let (source, device) = (&images.source, &self.device.device);
        let prepare = eval_objects(&self.plan)?;
        let batches = prepared_batches(&self.plan, source, prepare, 1, (0, 1))?;
        let mut evaluation = judged(images, batches, progress, warn, |batches, done| {
            evaluate_objects(&self.network, Ok(batches), source, device, &Alone, done)
        })?;
        evaluation.scores.classes.clone_from(&self.classes);
        Ok(evaluation)
    }
}
