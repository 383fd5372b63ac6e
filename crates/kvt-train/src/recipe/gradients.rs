//! Gradients by parameter: taken from a backward pass, accumulated, measured and clipped.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{self, Tensor};
use kvt_ops::square_sums;

/// One flat gradient per parameter, without autodiff.
#[derive(Clone, Debug)]
pub struct Gradients {
    // In the order of the modules, not of the ids, which are random: the norm must be summed in a fixed order for a
    // resumed run to be bit-identical.
    by_parameter: Vec<(ParamId, Tensor<1>)>,
    /// A pending factor of all gradients, which the optimizer applies.
    grad_scale: f64,
}

impl Gradients {
    /// Takes the gradients of a network out of a backward pass.
    pub fn take(mut backward: tensor::Gradients, network: &impl Module) -> Self {
        struct Taker<'a> {
            backward: &'a mut tensor::Gradients,
            by_parameter: Vec<(ParamId, Tensor<1>)>,
        }
        impl ModuleVisitor for Taker<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                if let Some(gradient) = param.val().grad_remove(self.backward) {
                    self.by_parameter.push((param.id, flat(gradient)));
                }
            }
        }
        let mut taker = Taker {
            backward: &mut backward,
            by_parameter: Vec::new(),
        };
        network.visit(&mut taker);
        Self::of_tensors(taker.by_parameter)
    }

    /// These gradients, in the order of the modules.
    pub(crate) fn of_tensors(by_parameter: Vec<(ParamId, Tensor<1>)>) -> Self {
        Self {
            by_parameter,
            grad_scale: 1.0,
        }
    }

    /// The gradients, in the order of the modules.
    pub(crate) fn into_tensors(mut self) -> Vec<(ParamId, Tensor<1>)> {
        self.map_each(|_, gradient| gradient);
        self.by_parameter
    }

    /// The gradient of a parameter, flat, and its pending factor; it is removed from the collection.
    pub fn remove(&mut self, parameter: ParamId) -> Option<(Tensor<1>, f64)> {
        let at = self
            .by_parameter
            .iter()
            .position(|(id, _)| *id == parameter)?;
        Some((self.by_parameter.remove(at).1, self.grad_scale))
    }

    /// Removes the parameters that `keep` rejects. The optimizer skips them completely: no decay, no moments, no step
    /// count. Zero gradients would not be the same.
    pub fn retain(&mut self, keep: impl Fn(ParamId) -> bool) {
        self.by_parameter.retain(|(id, _)| keep(*id));
    }

    /// Divides by the factor of a [`LossScale`](super::LossScale), as part of the pending factor.
    #[must_use]
    pub fn unscaled(self, loss_scale: f64) -> Self {
        Self {
            grad_scale: self.grad_scale / loss_scale,
            ..self
        }
    }

    /// The L2 norm over all parameters, as a tensor `[1]` on the device.
    pub fn norm(&self) -> Option<Tensor<1>> {
        let all = self.by_parameter.iter();
        let gradients: Vec<_> = all.map(|(_, gradient)| gradient.clone()).collect();
        let norm = square_sums(&gradients).map(Tensor::sqrt);
        norm.map(|norm| times(norm, self.grad_scale))
    }

    /// Scales all gradients, whose global norm is `norm`, so that it is at most `max_norm` (PyTorch's
    /// `clip_grad_norm_`, with its 1e-6 in the denominator).
    #[must_use]
    pub fn clip_norm(self, norm: f64, max_norm: f64) -> Self {
        Self {
            grad_scale: self.grad_scale * (max_norm / (norm + 1e-6)).min(1.0),
            ..self
        }
    }

    /// Changes each gradient separately, for example to clip every parameter by its own norm. The new gradient must
    /// have the same number of elements.
    pub fn map_each(&mut self, change: impl Fn(ParamId, Tensor<1>) -> Tensor<1>) {
        let factor = std::mem::replace(&mut self.grad_scale, 1.0);
        let gradients = std::mem::take(&mut self.by_parameter).into_iter();
        let changed = gradients.map(|(id, gradient)| (id, change(id, times(gradient, factor))));
        self.by_parameter = changed.collect();
    }

    /// The sum with the gradients of another pass through the same model. A parameter can have a gradient in only one of
    /// them.
    fn add(self, mut other: Self) -> Self {
        let own = self.by_parameter.into_iter();
        let mut by_parameter: Vec<_> = own
            .map(|(id, gradient)| match other.remove(id) {
                Some((more, _)) => (id, gradient + more),
                None => (id, gradient),
            })
            .collect();
        by_parameter.extend(other.by_parameter);
        Self {
            by_parameter,
            grad_scale: self.grad_scale,
        }
    }
}

/// Multiplies, unless the factor is 1.
pub(super) fn times(x: Tensor<1>, factor: f64) -> Tensor<1> {
    if factor == 1.0 { x } else { x * factor }
}

pub(crate) fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let elements = tensor.shape().num_elements();
    tensor.reshape([elements])
}

/// Gradients of the micro-batches of one update. The result is the mean over the *images* of all of them, so 4 x 8
/// images give the update of 32, and a short last micro-batch gets no extra weight.
#[derive(Debug, Default)]
pub struct Accumulator {
    sum: Option<Gradients>,
    images: usize,
}

impl Accumulator {
    /// Adds the gradients of the mean loss over `images` images.
    pub fn add(&mut self, mut gradients: Gradients, images: usize) {
        self.sum = Some(match self.sum.take() {
            None => gradients,
            // Both are means: weighted so that the result is a mean too.
            Some(mut sum) => {
                let total = (self.images + images) as f64;
                let (old, new) = (self.images as f64 / total, images as f64 / total);
                sum.map_each(|_, gradient| gradient * old);
                gradients.map_each(|_, gradient| gradient * new);
                sum.add(gradients)
            }
        });
        self.images += images;
    }

    /// Number of images since the last call of [`finish`](Self::finish).
    pub fn images(&self) -> usize {
        self.images
    }

    /// The mean over all images since the last call, or `None` without any.
    pub fn finish(&mut self) -> Option<Gradients> {
        self.images = 0;
        self.sum.take()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;

    use super::*;

    fn gradients(ids: &[ParamId], values: &[&[f32]]) -> Gradients {
        let device = Device::flex();
        Gradients {
            by_parameter: ids
                .iter()
                .zip(values)
                .map(|(&id, &values)| (id, Tensor::from_data(values, &device)))
                .collect(),
            grad_scale: 1.0,
        }
    }

    fn values(mut gradients: Gradients, id: ParamId) -> Vec<f32> {
        let (gradient, factor) = gradients.remove(id).unwrap();
        (gradient * factor).into_data().try_to_vec().unwrap()
    }

    /// 3, 4 and 12 give 13: the norm is over all parameters, not per parameter.
    #[test]
    fn clipping_is_by_the_global_norm() {
        let ids = [ParamId::new(), ParamId::new()];
        let make = || gradients(&ids, &[&[3.0, 4.0], &[12.0]]);
        let norm = f64::from(make().norm().unwrap().into_scalar::<f32>());
        assert!((norm - 13.0).abs() < 1e-5);
        let clipped = make().clip_norm(norm, 6.5);
        for (actual, expected) in values(clipped.clone(), ids[0]).iter().zip([1.5, 2.0]) {
            assert!((actual - expected).abs() < 1e-5);
        }
        assert!((values(clipped, ids[1])[0] - 6.0).abs() < 1e-5);
        // Below the limit nothing changes.
        assert_eq!(values(make().clip_norm(norm, 14.0), ids[0]), [3.0, 4.0]);
        // PyTorch's 1e-6 in the denominator, if it is significant: 1e-6 / (3e-6 + 1e-6).
        let tiny = gradients(&ids, &[&[4.0], &[0.0]]).clip_norm(3e-6, 1e-6);
        assert!((values(tiny, ids[0])[0] - 1.0).abs() < 1e-5);
    }

    #[test]
    fn each_gradient_can_be_changed_by_itself() {
        let ids = [ParamId::new(), ParamId::new()];
        let mut gradients = gradients(&ids, &[&[3.0, 4.0], &[12.0]]);
        gradients.map_each(|id, gradient| {
            if id == ids[0] {
                gradient * 2.0
            } else {
                gradient
            }
        });
        assert_eq!(values(gradients.clone(), ids[0]), [6.0, 8.0]);
        assert_eq!(values(gradients, ids[1]), [12.0]);
    }

    /// 3, 4 and 12, for a loss that was multiplied by 4: norm and clipping refer to the unscaled gradients.
    #[test]
    fn a_scaled_loss_leaves_no_trace() {
        let ids = [ParamId::new(), ParamId::new()];
        let make = || gradients(&ids, &[&[12.0, 16.0], &[48.0]]).unscaled(4.0);
        let norm = f64::from(make().norm().unwrap().into_scalar::<f32>());
        assert!((norm - 13.0).abs() < 1e-5);
        assert_eq!(values(make(), ids[0]), [3.0, 4.0]);
        assert_eq!(values(make().clip_norm(norm, 14.0), ids[0]), [3.0, 4.0]);
        let clipped = values(make().clip_norm(norm, 6.5), ids[0]);
        for (actual, expected) in clipped.iter().zip([1.5, 2.0]) {
            assert!((actual - expected).abs() < 1e-5);
        }
        // Changes of each gradient see the unscaled gradients.
        let mut each = make();
        each.map_each(|_, gradient| gradient.clamp(-5.0, 5.0));
        assert_eq!(values(each.clone(), ids[0]), [3.0, 4.0]);
        assert_eq!(values(each, ids[1]), [5.0]);
    }

    #[test]
    fn parameters_can_be_left_out() {
        let ids = [ParamId::new(), ParamId::new()];
        let mut gradients = gradients(&ids, &[&[3.0, 4.0], &[12.0]]);
        gradients.retain(|id| id != ids[1]);
        let norm = gradients.norm().unwrap().into_scalar::<f32>();
        assert!((norm - 5.0).abs() < 1e-6);
        assert!(gradients.remove(ids[1]).is_none());
        assert_eq!(values(gradients, ids[0]), [3.0, 4.0]);
    }

    /// In the mean over 6 images, those without a gradient count as zeros.
    #[test]
    fn a_parameter_may_have_a_gradient_in_one_micro_batch_only() {
        let ids = [ParamId::new(), ParamId::new()];
        let mut accumulator = Accumulator::default();
        accumulator.add(gradients(&ids[..1], &[&[3.0]]), 4);
        accumulator.add(gradients(&ids[1..], &[&[6.0]]), 2);
        let mean = accumulator.finish().unwrap();
        assert!((values(mean.clone(), ids[0])[0] - 2.0).abs() < 1e-6);
        assert!((values(mean, ids[1])[0] - 2.0).abs() < 1e-6);
    }

    /// Means over 4 and over 2 images give the mean over 6, not the mean of the means.
    #[test]
    fn accumulation_is_the_mean_over_images() {
        let id = [ParamId::new()];
        let mut accumulator = Accumulator::default();
        // The second update is independent of the first.
        for _ in 0..2 {
            accumulator.add(gradients(&id, &[&[3.0, -6.0]]), 4);
            accumulator.add(gradients(&id, &[&[9.0, 0.0]]), 2);
            let mean = values(accumulator.finish().unwrap(), id[0]);
            for (actual, expected) in mean.iter().zip([5.0, -4.0]) {
                assert!((actual - expected).abs() < 1e-6);
            }
            assert!(accumulator.finish().is_none());
        }
    }
}
