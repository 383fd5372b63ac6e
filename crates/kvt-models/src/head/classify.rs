//! A linear classifier with one output, or with a second one for distillation.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_ops::{Phase, linear};

use super::Head;
use crate::backbone::Features;
use crate::layers::Init;

/// The classifier of all families. Outside of it the layers carry the names that the family gives them.
#[derive(Module, Debug)]
pub struct Classifier {
    class: Linear,
    distillation: Option<Linear>,
    #[module(skip)]
    reads: Reads,
}

/// What a classifier reads of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The first token, and for distillation the second.
    Prefix,
    /// The mean of all tokens.
    Mean,
}

impl Classifier {
    /// The layers in their order, as their names within the module begin.
    pub(crate) const LAYERS: [&'static str; 2] = ["class", "distillation"];

    /// A classifier from the layers of its outputs.
    pub(crate) fn new(class: Linear, distillation: Option<Linear>, reads: Reads) -> Self {
        Self {
            class,
            distillation,
            reads,
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

    fn forward(&self, features: Features, _: Phase) -> Logits {
        let x = features.tokens;
        let token = |i: usize| match self.reads {
            Reads::Prefix => x.clone().narrow(1, i, 1).squeeze_dim::<2>(1),
            Reads::Mean => x.clone().mean_dim(1).squeeze_dim::<2>(1),
        };
        Logits {
            class: linear(&self.class, token(0)),
            distillation: self
                .distillation
                .as_ref()
                .map(|layer| linear(layer, token(1))),
        }
    }
}

/// The logits of a classifier's outputs, `[batch, num_classes]` each.
#[derive(Clone, Debug)]
pub struct Logits {
    /// From the class token, or from the mean of the tokens.
    pub class: Tensor<2>,
    /// From the distillation token, where the model has one.
    pub distillation: Option<Tensor<2>>,
}

impl Logits {
    /// The mean over the outputs: what a distilled model predicts.
    pub fn mean(self) -> Tensor<2> {
        match self.distillation {
            Some(distillation) => (self.class + distillation) * 0.5,
            None => self.class,
        }
    }
}
