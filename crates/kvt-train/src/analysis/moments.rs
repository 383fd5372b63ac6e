//! Means with standard errors, from sums over batches.

/// Mean and squared differences of numbers that arrive in batches, merged by the formula of Chan, Golub and LeVeque, which avoids
/// cancellation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squared differences from the mean.
    squares: f64,
}

impl Extend<f64> for Moments {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        for value in values {
            self.merge(Self::new(1, value, 0.0));
        }
    }
}

impl Moments {
    /// The moments of `count` numbers with this mean and this sum of squared differences from it.
    pub fn new(count: u64, mean: f64, squares: f64) -> Self {
        Self {
            count,
            mean,
            squares,
        }
    }

    /// Adds the numbers of another batch.
    pub fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        if count == 0 {
            return;
        }
        let share = other.count as f64 / count as f64;
        let difference = other.mean - self.mean;
        self.squares += other.squares + difference * difference * self.count as f64 * share;
        self.mean += difference * share;
        self.count = count;
    }

    /// The mean and its error; `None` without numbers.
    pub fn estimate(&self) -> Option<Estimate> {
        let count = self.count as f64;
        (self.count > 0).then(|| Estimate {
            mean: self.mean,
            error: (self.count > 1).then(|| (self.squares / (count - 1.0) / count).sqrt()),
            images: self.count,
        })
    }
}

/// A mean over images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard error of the mean: the sample standard deviation over the images, divided by the root of their number; `None` for
    /// one image.
    pub error: Option<f64>,
    /// The number of images.
    pub images: u64,
}
