//! Linear evaluation as in DINO's `eval_linear.py`: one linear layer on frozen features, trained by SGD with momentum and a
//! learning rate that falls by half a cosine from epoch to epoch.

use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::Key;
use rand_distr::{Distribution, StandardNormal};

use kvt_train::error::TrainError;
use kvt_train::judge::{Correct, correct};
use kvt_train::knn_vote::{Rows, read};
use kvt_train::recipe::cosine;

/// How the layer is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearRecipe {
    /// Passes over the training images.
    pub epochs: u32,
    /// Images per update.
    pub batch_size: usize,
    /// The learning rate for a batch of 256 images; it scales in proportion to the batch size.
    pub lr: f64,
}

impl Default for LinearRecipe {
    /// The recipe of the original.
    fn default() -> Self {
        Self {
            epochs: 100,
            batch_size: 256,
            lr: 1e-3,
        }
    }
}

impl LinearRecipe {
    /// The learning rate in an epoch, counted from 0.
    pub fn lr(&self, epoch: u32) -> f64 {
        let start = self.lr * self.batch_size as f64 / 256.0;
        cosine(start, 0.0, f64::from(epoch) / f64::from(self.epochs.max(1)))
    }
}

/// The momentum of the original's SGD.
const MOMENTUM: f64 = 0.9;
/// The standard deviation of the initial weights.
const STD: f32 = 0.01;

/// The layer and its momentum. No tensor has autodiff: the gradient is computed by its formula.
#[derive(Clone, Debug)]
pub struct LinearProbe {
    /// Weights `[dim, classes]` and bias `[1, classes]`.
    pub weight: [Tensor<2>; 2],
    momentum: [Tensor<2>; 2],
}

impl LinearProbe {
    /// A layer with normally distributed weights and zero bias.
    pub fn new(dim: usize, classes: usize, device: &Device, key: Key) -> Self {
        let draws = StandardNormal.sample_iter(key.rng()).take(dim * classes);
        let values: Vec<f32> = draws.map(|draw: f32| STD * draw).collect();
        Self::from_weights(TensorData::new(values, [dim, classes]), device)
    }

    /// A layer with these weights, `[dim, classes]`, and zero bias.
    pub fn from_weights(weight: TensorData, device: &Device) -> Self {
        let device = device.clone().inner();
        let weight = Tensor::<2>::from_data(weight, &device);
        let bias = Tensor::zeros([1, weight.dims()[1]], &device);
        Self {
            momentum: [weight.zeros_like(), bias.zeros_like()],
            weight: [weight, bias],
        }
    }

    /// `[images, dim]` to `[images, classes]`.
    pub fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        let [weight, bias] = self.weight.clone();
        features.matmul(weight) + bias
    }

    /// Makes an update with features `[images, dim]` and their classes, and returns the mean cross-entropy before it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn update(
        &mut self,
        features: Tensor<2>,
        labels: &[u32],
        lr: f64,
    ) -> Result<f64, TrainError> {
        let logits = self.logits(features.clone());
        let [images, classes] = logits.dims();
        let mut targets = vec![0.0f32; images * classes];
        for (row, &label) in targets.chunks_exact_mut(classes.max(1)).zip(labels) {
            if let Some(target) = row.get_mut(label as usize) {
                *target = 1.0;
            }
        }
        let targets = TensorData::new(targets, [images, classes]);
        let targets = Tensor::<2>::from_data(targets, &logits.device());
        let scale = 1.0 / images as f64;
        let loss = (log_softmax(logits.clone(), 1) * targets.clone()).sum() * -scale;
        let error = (softmax(logits, 1) - targets) * scale;
        let gradients = [features.transpose().matmul(error.clone()), error.sum_dim(0)];
        for (at, gradient) in gradients.into_iter().enumerate() {
            let momentum = self.momentum[at].clone() * MOMENTUM + gradient;
            self.weight[at] = self.weight[at].clone() - momentum.clone() * lr;
            self.momentum[at] = momentum;
        }
        let loss = read(loss)?.first().copied().map_or(f64::NAN, f64::from);
        Ok(loss)
    }

    /// How many images are classified correctly.
    ///
    /// # Errors
    /// If the device fails.
    pub fn correct(&self, rows: &Rows, device: &Device) -> Result<Correct, TrainError> {
        let device = device.clone().inner();
        let mut total = Correct { top1: 0, top5: 0 };
        for first in (0..rows.len()).step_by(CHUNK) {
            let features = rows.part(first, CHUNK, &device);
            let labels = rows.labels.get(first..first + features.dims()[0]);
            let logits = self.logits(features);
            let classes = logits.dims()[1];
            let found = correct(&read(logits)?, labels.unwrap_or_default(), classes);
            total.top1 += found.top1;
            total.top5 += found.top5;
        }
        Ok(total)
    }
}

/// Images that are classified at once.
const CHUNK: usize = 1024;

/// The result of an epoch of linear evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearEpoch {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Its learning rate.
    pub lr: f64,
    /// Mean training loss.
    pub loss: f64,
    /// Top-1 and top-5 accuracy on the validation images, in percent.
    pub top1: f64,
    /// See `top1`.
    pub top5: f64,
}

impl LinearEpoch {
    /// The columns of a table of epochs.
    pub const HEADER: [&str; 5] = ["epoch", "lr", "loss", "top1", "top5"];

    /// Its row in such a table, where epochs count from 1.
    #[must_use]
    pub fn row(&self) -> [f64; 5] {
        let epoch = f64::from(self.epoch + 1);
        [epoch, self.lr, self.loss, self.top1, self.top5]
    }

    /// Top-1 of the best epoch, in percent; 0 without epochs.
    #[must_use]
    pub fn best(done: &[Self]) -> f64 {
        done.iter().map(|epoch| epoch.top1).fold(0.0, f64::max)
    }
}

/// Trains a layer on the training images of each epoch, and judges it after each on the validation images. `epoch` returns the
/// batches of features and labels of an epoch; `tell` receives the result of each epoch, and returns whether to continue.
///
/// # Errors
/// What `epoch` returns, or if the device fails.
pub fn linear<B>(
    recipe: &LinearRecipe,
    mut layer: LinearProbe,
    (val, device): (&Rows, &Device),
    mut epoch: impl FnMut(u32) -> Result<B, TrainError>,
    mut tell: impl FnMut(&LinearEpoch) -> bool,
) -> Result<Vec<LinearEpoch>, TrainError>
where
    B: Iterator<Item = Result<(Tensor<2>, Vec<u32>), TrainError>>,
{
    let mut done = Vec::new();
    for number in 0..recipe.epochs {
        let lr = recipe.lr(number);
        let (mut loss, mut images) = (0.0, 0);
        for batch in epoch(number)? {
            let (features, labels) = batch?;
            loss += layer.update(features, &labels, lr)? * labels.len() as f64;
            images += labels.len();
        }
        let Correct { top1, top5 } = layer.correct(val, device)?;
        let percent = |count: u64| 100.0 * count as f64 / val.len() as f64;
        let result = LinearEpoch {
            epoch: number,
            lr,
            loss: loss / images as f64,
            top1: percent(top1),
            top5: percent(top5),
        };
        done.push(result);
        if !tell(&result) {
            break;
        }
    }
    Ok(done)
}
