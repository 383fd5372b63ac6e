//! The numbers of an update, in one tensor: the losses of the micro-batches, each weighted by its share of the images, then the norm of
//! the gradients; then, if the device decided, the factor of clipping and whether it made the update.

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The mean loss over the images.
    pub loss: f64,
    /// The global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// The number of images.
    pub images: usize,
    /// Whether it was made. It is not if a scaled loss made the gradients infinite: then weights, moments, the optimizer's count,
    /// the average and the untrained state of network and task stay as before, and the scale is halved.
    pub made: bool,
}

impl Update {
    /// From the numbers, without a decision.
    pub(super) fn unpack(numbers: &[f64], images: usize) -> Self {
        let (grad_norm, losses) = numbers.split_last().unwrap_or((&f64::NAN, &[]));
        Self {
            loss: losses.iter().sum(),
            grad_norm: *grad_norm,
            images,
            made: true,
        }
    }

    /// From the numbers with a decision, and whether the device made the update.
    pub(super) fn unpack_decided(numbers: &[f64], images: usize) -> (Self, bool) {
        match numbers {
            [numbers @ .., _factor, made] => (Self::unpack(numbers, images), *made > 0.0),
            _ => (Self::unpack(&[], images), false),
        }
    }

    pub(super) fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.grad_norm.is_finite()
    }
}
