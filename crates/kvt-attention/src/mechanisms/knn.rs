//! k-NN attention: each query keeps only its best keys.

use crate::{
    AttentionError, Cost, Implementation, MechanismConfig, Neighbors, ParamInit, PerStage, Place,
    Selection, SoftmaxAttention,
};

settings! {
    /// k-NN attention, `softmax(top_k(scale / temperature * q k^T + bias)) v`
    /// ([KVT, ECCV 2022](https://arxiv.org/abs/2106.00515), Algorithm 1).
    pub struct KnnConfig {
        /// How many keys a query keeps, or a list with one entry per stage of the model.
        pub neighbors: PerStage<Neighbors> = Neighbors::Fraction(0.5).into();
        /// How keys are ranked.
        pub selection: Selection = Selection::default();
        /// How k-NN attention is computed.
        pub implementation: Implementation = Implementation::default();
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl KnnConfig {
    /// The best `neighbors` by dot product, in all stages.
    pub fn new(neighbors: Neighbors) -> Self {
        Self {
            neighbors: neighbors.into(),
            ..Self::default()
        }
    }

    fn softmax(&self, neighbors: Neighbors) -> SoftmaxAttention {
        SoftmaxAttention {
            neighbors,
            selection: self.selection,
            implementation: self.implementation,
            temperature: self.temperature,
        }
    }

    /// The mechanism of one stage: the first, if the list has not been split.
    fn first(&self) -> SoftmaxAttention {
        let first = self.neighbors.values().first();
        self.softmax(first.copied().unwrap_or(Neighbors::All))
    }
}

impl MechanismConfig for KnnConfig {
    const KIND: &'static str = "knn";

    const IS_SOFTMAX: bool = true;

    type Mechanism = SoftmaxAttention;

    fn stages(&self) -> usize {
        self.neighbors.values().len()
    }

    fn at_stage(&self, stage: usize, stages: usize) -> Result<Self, AttentionError> {
        Ok(Self {
            neighbors: self.neighbors.at("neighbors", stage, stages)?.into(),
            ..self.clone()
        })
    }

    fn validate(&self) -> Result<(), AttentionError> {
        let mut stages = self.neighbors.values().iter();
        stages.try_for_each(|&neighbors| self.softmax(neighbors).validate())
    }

    fn fits(&self, _place: &Place) -> Result<(), AttentionError> {
        // A place is one stage.
        self.at_stage(0, 1).map(|_| ())
    }

    fn cost(&self, place: &Place) -> Cost {
        self.first().cost(place)
    }

    fn init(&self, _place: &Place, _init: &impl ParamInit) -> SoftmaxAttention {
        self.first()
    }
}
