//! Lemma 2: how far the output is from the mean of the relevant tokens.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Neighbors, Score, SoftmaxAttention, attend};
use kvt_ops::Key;

use super::{Curve, normal};
use crate::ReproduceError;
use kvt_train::analysis::Moments;
use kvt_train::knn_vote::read;

/// As in `scripts/reference/lemmas.py`.
pub(super) const TOKENS: usize = 196;
pub(super) const RELEVANT: usize = 60;
pub(super) const DIM: usize = 32;
const COUNTS: [usize; 8] = [1, 10, 40, 60, 80, 100, 150, 196];

pub(super) fn compute(draws: usize) -> Result<Curve, ReproduceError> {
    let device = Device::flex();
    let mut errors = [Moments::default(); COUNTS.len()];
    for draw in 0..draws {
        let key = Key::new(draw as u64).named("lemma 2");
        let noise = normal(key, TOKENS * DIM);
        let mut x: Vec<f32> = noise
            .into_iter()
            .map(|z| (z / (DIM as f64).sqrt()) as f32)
            .collect();
        for (token, x) in x.chunks_exact_mut(DIM).enumerate() {
            // The first mean is the relevant one.
            let mean = match token.checked_sub(RELEVANT) {
                None => 0,
                Some(other) => 1 + other % 3,
            };
            x[mean] += 2.0;
        }
        let x = Tensor::<4>::from_data(TensorData::new(x, [1, 1, TOKENS, DIM]), &device);
        for (errors, kept) in errors.iter_mut().zip(COUNTS) {
            let out = attend(
                x.clone().narrow(2, 0, 1),
                x.clone(),
                x.clone(),
                Score::default(),
                (DIM as f64).powf(-0.5),
                &SoftmaxAttention::knn(Neighbors::count(kept).unwrap_or(Neighbors::All)),
                None,
            )?;
            let out = read(out)?.into_iter().enumerate();
            let off = out.map(|(c, value)| f64::from(value) - if c == 0 { 2.0 } else { 0.0 });
            errors.extend([off.fold(0.0, |largest: f64, off| largest.max(off.abs()))]);
        }
    }
    let points = COUNTS.into_iter().zip(errors);
    Ok(Curve {
        lemma: 2,
        quantity: "error",
        title: "distance from the relevant mean",
        x: "k of 196 tokens, 60 relevant",
        points: points
            .filter_map(|(kept, errors)| Some((kept as f64, errors.estimate()?)))
            .collect(),
    })
}
