//! Features of images on the host, with their labels.

use burn::tensor::{Device, Tensor, TensorData};

use crate::data::{Batch, DataError};
use crate::error::TrainError;

/// One row of features for each image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The rows one after another, `[images, dim]`.
    pub features: Vec<f32>,
    /// The length of a row.
    pub dim: usize,
    /// The class of each image.
    pub labels: Vec<u32>,
    /// The index of each image in its source.
    pub indices: Vec<u32>,
}

impl Rows {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The rows at these places; places beyond the last are left out.
    pub fn some(&self, places: impl Iterator<Item = usize>) -> Self {
        let mut some = Self {
            dim: self.dim,
            ..Self::default()
        };
        for place in places {
            if let (Some(label), Some(index), Some(features)) = (
                self.labels.get(place),
                self.indices.get(place),
                self.features.get(place * self.dim..(place + 1) * self.dim),
            ) {
                some.labels.push(*label);
                some.indices.push(*index);
                some.features.extend_from_slice(features);
            }
        }
        some
    }

    /// The features of all images, `[images, dim]`.
    pub fn tensor(&self, device: &Device) -> Tensor<2> {
        self.part(0, self.len(), device)
    }

    /// The features of `count` images from `first` on, or of as many as there are, `[images, dim]`.
    pub fn part(&self, first: usize, count: usize, device: &Device) -> Tensor<2> {
        let end = (first + count).min(self.len());
        let place = first.min(end) * self.dim..end * self.dim;
        let values = self.features.get(place).unwrap_or_default();
        let shape = [values.len() / self.dim.max(1), self.dim];
        Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
    }
}

/// The features of all images of some batches; `features` computes them from `[batch, 3, height, width]`, without autodiff.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, or the device fails.
pub fn collect(
    batches: impl Iterator<Item = Result<Batch, DataError>>,
    device: &Device,
    mut features: impl FnMut(Tensor<4>) -> Tensor<2>,
) -> Result<Rows, TrainError> {
    let device = device.clone().inner();
    let mut rows = Rows::default();
    for batch in batches {
        let batch = batch?;
        for view in batch.views {
            let made = features(view.upload(&device));
            rows.dim = made.dims()[1];
            rows.features.extend(read(made)?);
        }
        rows.labels.extend(batch.targets);
        rows.indices.extend(batch.indices);
    }
    if rows.is_empty() {
        Err(TrainError::NothingEvaluated)
    } else {
        Ok(rows)
    }
}

/// Copies the values of a tensor to the host.
pub fn read<const D: usize>(values: Tensor<D>) -> Result<Vec<f32>, TrainError> {
    Ok(values.try_into_vec_as()?)
}
