//! What an evaluation measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The numbers of an evaluation by name. A task has its own: a classifier `loss`, `top1` and `top5`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics(BTreeMap<String, Number>);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Number(#[serde(with = "super::number")] f64);

impl Metrics {
    /// Mean cross-entropy.
    pub const LOSS: &'static str = "loss";
    /// Percent of images whose best class is right.
    pub const TOP1: &'static str = "top1";
    /// Percent of images whose class is among the best five.
    pub const TOP5: &'static str = "top5";

    /// The metric of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|number| number.0)
    }

    /// All metrics, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.0))
    }
}

impl<const N: usize> From<[(&str, f64); N]> for Metrics {
    fn from(metrics: [(&str, f64); N]) -> Self {
        let named = metrics.map(|(name, value)| (name.to_owned(), Number(value)));
        Self(named.into_iter().collect())
    }
}
