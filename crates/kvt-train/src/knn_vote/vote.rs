//! The weighted k-NN classifier (Wu et al., 2018, <https://arxiv.org/abs/1805.01978>, section 3.4), as in DINO's `eval_knn.py`: the
//! nearest images by the cosine of their features vote with `exp(cosine / temperature)`.

use burn::tensor::{Device, Tensor};

use super::Rows;
use super::rows::read;
use crate::error::TrainError;

/// Images that are classified at once.
const CHUNK: usize = 256;
/// The smallest divisor, as in PyTorch's `normalize`.
const LEAST_NORM: f64 = 1e-12;

/// How the neighbours of an image vote.
#[derive(Clone, Debug, PartialEq)]
pub struct KnnVote {
    /// The numbers of neighbours that vote, each with a result; at most all images of the bank.
    pub neighbors: Vec<usize>,
    /// The divisor of the cosines.
    pub temperature: f64,
    /// The number of classes.
    pub classes: usize,
}

/// The accuracy with one number of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnnAccuracy {
    /// The number of neighbours.
    pub neighbors: usize,
    /// The number of images.
    pub images: usize,
    /// Images whose class has the most votes.
    pub top1: usize,
    /// Images whose class is among the five with the most votes.
    pub top5: usize,
}

impl KnnAccuracy {
    /// Top-1 accuracy in percent.
    pub fn top1_percent(&self) -> f64 {
        100.0 * self.top1 as f64 / self.images as f64
    }

    /// Top-5 accuracy in percent.
    pub fn top5_percent(&self) -> f64 {
        100.0 * self.top5 as f64 / self.images as f64
    }
}

/// A neighbour: its place in the bank, and its cosine.
pub type Neighbor = (usize, f32);

impl KnnVote {
    /// The original's temperature.
    pub const TEMPERATURE: f64 = 0.07;
    /// The original's numbers of neighbours.
    pub const NEIGHBORS: [usize; 4] = [10, 20, 100, 200];

    /// Classifies images by their neighbours in a bank, and counts the correct ones.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify(
        &self,
        bank: &Rows,
        queries: &Rows,
        device: &Device,
    ) -> Result<Vec<KnnAccuracy>, TrainError> {
        let start = |&neighbors: &usize| KnnAccuracy {
            neighbors,
            images: queries.len(),
            top1: 0,
            top5: 0,
        };
        let mut found: Vec<KnnAccuracy> = self.neighbors.iter().map(start).collect();
        let most = self.neighbors.iter().copied().max().unwrap_or(0);
        let mut labels = queries.labels.iter();
        nearest(bank, queries, most, device, |nearest| {
            let Some(&label) = labels.next() else { return };
            for accuracy in &mut found {
                let voters = nearest.iter().take(accuracy.neighbors);
                let place = self.place(voters, bank, label);
                accuracy.top1 += usize::from(place < 1);
                accuracy.top5 += usize::from(place < 5);
            }
        })?;
        Ok(found)
    }

    /// How many classes come before `label` in the vote; on a tie the lower class comes first.
    fn place<'a>(
        &self,
        voters: impl Iterator<Item = &'a Neighbor>,
        bank: &Rows,
        label: u32,
    ) -> usize {
        let mut votes = vec![0.0f64; self.classes.max(label as usize + 1)];
        for &(place, cosine) in voters {
            let class = bank.labels.get(place).map(|&class| class as usize);
            if let Some(vote) = class.and_then(|class| votes.get_mut(class)) {
                *vote += (f64::from(cosine) / self.temperature).exp();
            }
        }
        let own = votes.get(label as usize).copied().unwrap_or_default();
        let votes = votes.iter().enumerate();
        let before =
            votes.filter(|(class, vote)| **vote > own || **vote == own && *class < label as usize);
        before.count()
    }
}

/// Calls `tell` with the `count` nearest images of the bank for each query, nearest first; ties keep the order of the bank.
///
/// # Errors
/// If the device fails.
pub fn nearest(
    bank: &Rows,
    queries: &Rows,
    count: usize,
    device: &Device,
    mut tell: impl FnMut(&[Neighbor]),
) -> Result<(), TrainError> {
    let device = device.clone().inner();
    let bank = normalized(bank.tensor(&device));
    let images = bank.dims()[0];
    let columns = bank.transpose();
    for first in (0..queries.len()).step_by(CHUNK) {
        let chunk = normalized(queries.part(first, CHUNK, &device));
        let cosines = read(chunk.matmul(columns.clone()))?;
        for row in cosines.chunks_exact(images.max(1)) {
            tell(&largest(row, count));
        }
    }
    Ok(())
}

/// The places and values of the `count` largest numbers, largest first; ties keep their order.
fn largest(row: &[f32], count: usize) -> Vec<Neighbor> {
    let order = |a: &Neighbor, b: &Neighbor| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let mut all: Vec<Neighbor> = row.iter().copied().enumerate().collect();
    if count < all.len() && count > 0 {
        all.select_nth_unstable_by(count - 1, order);
    }
    all.truncate(count);
    all.sort_unstable_by(order);
    all
}

/// Scales each row to length 1.
pub(crate) fn normalized(rows: Tensor<2>) -> Tensor<2> {
    let lengths = rows.clone().square().sum_dim(1).sqrt();
    rows / lengths.clamp_min(LEAST_NORM)
}
