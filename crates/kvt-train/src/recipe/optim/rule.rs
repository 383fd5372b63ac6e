//! The update of one parameter.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use super::OptimConfig;

/// The update of a parameter by an optimizer other than AdamW. All tensors are flat and without autodiff.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// PyTorch's names of the buffers that are kept from update to update.
    pub(super) buffers: &'static [&'static str],
    /// From the settings, the weight and its gradient to the new weight. It is given these buffers; at the first update there are none.
    pub(super) update:
        fn(&OptimConfig, Tensor<1>, Tensor<1>, &UpdateNumber, &mut Buffers) -> Tensor<1>,
}

/// The settings of a parameter's update.
#[derive(Clone, Debug)]
pub(super) struct UpdateNumber {
    pub(super) lr: f64,
    /// 0 for a parameter that does not decay.
    pub(super) weight_decay: f64,
    /// The number of this update of the parameter, from 1.
    pub(super) step: u32,
    /// The shape of the weight in the network.
    pub(super) shape: Vec<usize>,
}

impl UpdateNumber {
    /// `1 - beta^step`: the total weight of the gradients so far in a moment that started at zero.
    pub(super) fn bias_correction(&self, beta: f64) -> f64 {
        1.0 - beta.powf(f64::from(self.step))
    }
}

/// PyTorch's names of the two moments of Adam and related optimizers.
pub(super) const MOMENTS: [&str; 2] = ["exp_avg", "exp_avg_sq"];

/// The buffers of a parameter, by PyTorch's names.
#[derive(Debug, Default)]
pub(super) struct Buffers(BTreeMap<&'static str, Tensor<1>>);

impl Buffers {
    /// Adam's moments, as [`take`](Self::take).
    pub(super) fn take_moments(&mut self, weight: &Tensor<1>) -> [Tensor<1>; 2] {
        MOMENTS.map(|name| self.take(name, weight))
    }

    pub(super) fn put_moments(&mut self, moments: [Tensor<1>; 2]) {
        self.0.extend(MOMENTS.into_iter().zip(moments));
    }

    /// Takes the buffer with this name out of the collection, so that it can be changed in place; zeros at first.
    pub(super) fn take(&mut self, name: &'static str, weight: &Tensor<1>) -> Tensor<1> {
        let kept = self.0.remove(name);
        kept.unwrap_or_else(|| weight.zeros_like())
    }

    pub(super) fn put(&mut self, name: &'static str, values: Tensor<1>) {
        self.0.insert(name, values);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Tensor<1>)> {
        self.0.iter().map(|(name, values)| (*name, values))
    }
}

/// `a + weight (b - a)`, as PyTorch's `lerp`.
pub(super) fn lerp(a: Tensor<1>, b: Tensor<1>, weight: f64) -> Tensor<1> {
    a * (1.0 - weight) + b * weight
}
