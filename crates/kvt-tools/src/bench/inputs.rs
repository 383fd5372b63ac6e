//! Inputs of measurements: numbers drawn on the host from keys, identical in every process and on every device.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::Key;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::AttentionShape;

/// Number of distinct keys per head, if many are equal.
const KINDS: usize = 8;

/// The distribution of the scores of an attention operation, which affects the time to select keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionInput {
    /// Normal queries, keys and values: scores that all differ.
    #[default]
    Normal,
    /// The same, except for one key per head with the highest score for nearly all queries.
    Sink,
    /// The same, except that a head has only eight distinct keys: many scores of a row are equal.
    Equal,
}

impl AttentionInput {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Sink, Self::Equal];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Sink => "sink",
            Self::Equal => "equal",
        }
    }

    /// Queries, keys and values.
    pub(super) fn tensors(self, shape: AttentionShape, device: &Device) -> [Tensor<4>; 3] {
        let shape @ [batch, heads, tokens, head_dim] = shape.sizes();
        let draw = |name| numbers(Key::new(0).named(name), batch * heads * tokens * head_dim);
        let [mut q, mut k, v] = ["q", "k", "v"].map(draw);
        match self {
            Self::Normal => {}
            Self::Sink => {
                // All queries are large in one channel, in which one key is large too.
                q.iter_mut().step_by(head_dim).for_each(|x| *x += 4.0);
                let sinks = k.iter_mut().step_by(tokens * head_dim);
                sinks.for_each(|x| *x = 5.0 * (head_dim as f32).sqrt());
            }
            Self::Equal => {
                for head in k.chunks_mut(tokens * head_dim) {
                    for token in KINDS..tokens {
                        let kind = token % KINDS * head_dim;
                        head.copy_within(kind..kind + head_dim, token * head_dim);
                    }
                }
            }
        }
        [q, k, v].map(|values| Tensor::from_data(TensorData::new(values, shape), device))
    }
}

/// Standard normal numbers.
pub(super) fn normal<const D: usize>(key: Key, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = numbers(key, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn numbers(key: Key, count: usize) -> Vec<f32> {
    StandardNormal.sample_iter(key.rng()).take(count).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const SHAPE: AttentionShape = AttentionShape {
        batch: 2,
        heads: 3,
        tokens: 40,
        head_dim: 16,
    };

    /// The scores by row.
    fn scores(input: AttentionInput) -> Vec<Vec<f32>> {
        let [q, k, _] = input.tensors(SHAPE, &Device::flex());
        let scores: Vec<f32> = q
            .matmul(k.swap_dims(2, 3))
            .into_data()
            .try_to_vec()
            .unwrap();
        scores.chunks(SHAPE.tokens).map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn inputs_are_what_they_are_called() {
        let different = |row: &Vec<f32>| {
            let mut row = row.clone();
            row.sort_by(f32::total_cmp);
            row.dedup();
            row.len()
        };
        let rows = scores(AttentionInput::Normal);
        assert!(rows.iter().all(|row| different(row) == SHAPE.tokens));
        let rows = scores(AttentionInput::Equal);
        assert!(rows.iter().all(|row| different(row) == KINDS));
        let rows = scores(AttentionInput::Sink);
        let liked = |row: &&Vec<f32>| row[1..].iter().all(|x| *x < row[0]);
        assert!(rows.iter().filter(liked).count() > rows.len() * 9 / 10);
    }

    #[test]
    fn every_process_measures_on_the_same_numbers() {
        let run = || AttentionInput::Normal.tensors(SHAPE, &Device::flex());
        let [a, b] = [run(), run()].map(|x| x.map(Tensor::into_data));
        assert_eq!(a, b);
        assert_ne!(a[0], a[1]);
    }
}
