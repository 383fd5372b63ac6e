//! Expected calibration error: Guo et al., [On Calibration of Modern Neural Networks](https://arxiv.org/abs/1706.04599),
//! equation 3.

/// Bins of equal width, as in the paper's tables.
pub const BINS: usize = 15;

/// How often a model is right, by its confidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    bins: [Bin; BINS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    images: u64,
    right: u64,
    /// Sum of the probabilities.
    sum: f64,
}

impl Calibration {
    /// Adds an image: the probability of the predicted class, and whether it was right.
    pub fn hear(&mut self, probability: f64, is_right: bool) {
        // Bin m of M is ((m - 1) / M, m / M].
        let place = (probability * BINS as f64).ceil() as usize;
        let last = self.bins.len() - 1;
        if let Some(bin) = self.bins.get_mut(place.saturating_sub(1).min(last)) {
            bin.images += 1;
            bin.right += u64::from(is_right);
            bin.sum += probability;
        }
    }

    /// The mean absolute difference between accuracy and confidence over the bins, each weighted by its images: 0 if confidence
    /// equals accuracy in every bin. In [0, 1]; 0 without images.
    #[must_use]
    pub fn error(&self) -> f64 {
        let all: u64 = self.bins.iter().map(|bin| bin.images).sum();
        let parts = self
            .bins
            .iter()
            .map(|bin| (bin.right as f64 - bin.sum).abs());
        parts.sum::<f64>() / all.max(1) as f64
    }

    /// The mean probability of the predicted class.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        let all: u64 = self.bins.iter().map(|bin| bin.images).sum();
        let sum: f64 = self.bins.iter().map(|bin| bin.sum).sum();
        sum / all.max(1) as f64
    }
}
