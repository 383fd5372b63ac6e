//! A linear classifier with one output, and optionally one for distillation, one for every token, and a second-order
//! part.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_ops::{Phase, linear};

use super::SecondOrder;
use crate::backbone::Features;
use crate::layers::Init;

/// The classifier of all families. The class reads what the features pool to, the distillation the second token. Outside this module,
/// its layers have the names that the family gives them.
#[derive(Module, Debug)]
pub struct Classifier {
    pub(crate) class: Linear,
    pub(crate) distillation: Option<Linear>,
    /// Reads the patches; its logits are added to those of the class.
    pub(crate) second_order: Option<SecondOrder>,
    /// Reads every token after the prefix.
    pub(crate) aux: Option<Linear>,
}

impl Classifier {
    /// The layers that depend on the classes, and the rest of the second-order part, by the beginnings of their names
    /// within the module.
    pub(crate) const LAYERS: [&'static str; 5] = [
        "class",
        "distillation",
        "aux",
        "second_order.visual_fc",
        "second_order",
    ];

    /// A classifier from the layers of its outputs.
    pub(crate) fn new(class: Linear, distillation: Option<Linear>) -> Self {
        Self {
            class,
            distillation,
            second_order: None,
            aux: None,
        }
    }

    /// A classifier from `features` channels to `classes`, whose outputs have these names among the
    /// parameters.
    pub(crate) fn init(
        init: &Init<'_>,
        (class, distillation): (&str, Option<&str>),
        [features, classes]: [usize; 2],
    ) -> Self {
        let layer = |name: &str| init.linear(name, features, classes, true);
        Self::new(layer(class), distillation.map(layer))
    }

    /// The logits for the features of a batch.
    pub fn forward(&self, features: Features, phase: Phase) -> Logits {
        let class = linear(&self.class, features.pooled());
        let (x, prefix) = (features.tokens, features.prefix);
        let second = || x.clone().narrow(1, 1, 1).squeeze_dim::<2>(1);
        let patches = || x.clone().narrow(1, prefix, x.dims()[1] - prefix);
        Logits {
            class: match &self.second_order {
                Some(second_order) => second_order.forward(&patches(), phase) + class,
                None => class,
            },
            distillation: self
                .distillation
                .as_ref()
                .map(|layer| linear(layer, second())),
            aux: self.aux.as_ref().map(|layer| linear(layer, patches())),
        }
    }
}

/// The logits of a classifier's outputs.
#[derive(Clone, Debug)]
pub struct Logits {
    /// From the vector of the image, such as its class token; in So-ViT from all tokens, `[batch, num_classes]`.
    pub class: Tensor<2>,
    /// From the distillation token, if the model has one, `[batch, num_classes]`.
    pub distillation: Option<Tensor<2>>,
    /// From every token of the last map, if the model has an output for them, `[batch, tokens, num_classes]`.
    pub aux: Option<Tensor<3>>,
}

impl Logits {
    /// The combined outputs: the mean of class and distillation, or the class plus half of the maximum over the
    /// tokens, for each class by itself.
    pub fn mean(self) -> Tensor<2> {
        let logits = match self.distillation {
            Some(distillation) => (self.class + distillation) * 0.5,
            None => self.class,
        };
        match self.aux {
            Some(aux) => logits + aux.max_dim(1).squeeze_dim::<2>(1) * 0.5,
            None => logits,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;

    /// By hand, with weights of 1: the class token, what the backbone pools, and the mean of the map where only a register is before it;
    /// the distillation always has the second token.
    #[test]
    fn the_class_reads_what_the_features_pool_to() {
        let device = Device::flex();
        let tensor = |values: [[[f32; 1]; 3]; 1]| Tensor::<3>::from_data(values, &device);
        let layer = || Linear {
            weight: burn::module::Param::from_tensor(Tensor::ones([1, 1], &device)),
            bias: None,
        };
        let head = Classifier::new(layer(), Some(layer()));
        let features = |prefix, registers, vector: Option<f32>| Features {
            tokens: tensor([[[1.0], [2.0], [6.0]]]),
            prefix,
            registers,
            vector: vector.map(|value| Tensor::from_data([[value]], &device)),
            maps: Vec::new(),
            blocks: Vec::new(),
        };
        for (features, expected) in [
            (features(2, 0, None), 1.0),
            (features(2, 0, Some(7.0)), 7.0),
            (features(1, 1, None), 4.0),
            (features(0, 0, None), 3.0),
        ] {
            let logits = head.forward(features, Phase::Eval);
            let number = |logits: Tensor<2>| logits.into_scalar::<f32>();
            assert_eq!(number(logits.class), expected);
            assert_eq!(number(logits.distillation.unwrap()), 2.0);
        }
    }
}
