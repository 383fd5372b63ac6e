//! A linear classifier with one output, and optionally one for distillation, one for every token, and a second-order
//! part.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_ops::{Phase, linear};

use super::{Head, SecondOrder};
use crate::backbone::Features;
use crate::layers::Init;

/// The classifier of all families. Outside this module, its layers have the names that the family gives them.
#[derive(Module, Debug)]
pub struct Classifier {
    class: Linear,
    distillation: Option<Linear>,
    /// Reads the patches; its logits are added to those of the class.
    second_order: Option<SecondOrder>,
    aux: Option<Linear>,
    #[module(skip)]
    reads: Reads,
}

/// The part of the tokens that a classifier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The first token, and for distillation the second.
    Prefix,
    /// The mean of all tokens.
    Mean,
    /// The vector of the image, as the backbone makes it.
    Vector,
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
    pub(crate) fn new(class: Linear, distillation: Option<Linear>, reads: Reads) -> Self {
        Self {
            class,
            distillation,
            second_order: None,
            aux: None,
            reads,
        }
    }

    /// This with the logits of a second-order part added to those of the class.
    pub(crate) fn with_second_order(self, second_order: SecondOrder) -> Self {
        Self {
            second_order: Some(second_order),
            ..self
        }
    }

    /// The same with an output for every token after the prefix.
    pub(crate) fn with_aux(self, aux: Linear) -> Self {
        Self {
            aux: Some(aux),
            ..self
        }
    }

    /// A classifier from `features` channels to `classes`, whose outputs have these names among the
    /// parameters.
    pub(crate) fn init(
        init: &Init<'_>,
        (class, distillation): (&str, Option<&str>),
        [features, classes]: [usize; 2],
        reads: Reads,
    ) -> Self {
        let layer = |name: &str| match name.split_once('.') {
            Some((outer, name)) => init.child(outer).linear(name, features, classes, true),
            None => init.linear(name, features, classes, true),
        };
        Self::new(layer(class), distillation.map(layer), reads)
    }
}

impl Head for Classifier {
    type Output = Logits;

    fn forward(&self, features: Features, phase: Phase) -> Logits {
        let vector = (self.reads == Reads::Vector).then(|| features.pooled());
        let (x, prefix) = (features.tokens, features.prefix);
        let token = |i: usize| match self.reads {
            Reads::Prefix => x.clone().narrow(1, i, 1).squeeze_dim::<2>(1),
            Reads::Mean | Reads::Vector => x.clone().mean_dim(1).squeeze_dim::<2>(1),
        };
        let class = linear(&self.class, vector.unwrap_or_else(|| token(0)));
        let patches = || x.clone().narrow(1, prefix, x.dims()[1] - prefix);
        Logits {
            class: match &self.second_order {
                Some(second_order) => second_order.forward(&patches(), phase) + class,
                None => class,
            },
            distillation: self
                .distillation
                .as_ref()
                .map(|layer| linear(layer, token(1))),
            aux: self.aux.as_ref().map(|layer| linear(layer, patches())),
        }
    }
}

/// The logits of a classifier's outputs.
#[derive(Clone, Debug)]
pub struct Logits {
    /// From the class token, or from the mean of the tokens; in So-ViT from all tokens, `[batch, num_classes]`.
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
