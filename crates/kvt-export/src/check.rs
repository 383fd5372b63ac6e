//! The file, run by another program: tract, on images of noise.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Model;
use kvt_ops::{Key, Phase};
use rand::RngExt;
use tract_onnx::prelude::{
    DatumExt, Framework, InferenceModelExt, IntoRunnable, IntoTValue, TractResult, tvec,
};

use crate::error::ExportError;

/// Images that are compared.
const IMAGES: usize = 8;
/// What the logits may differ by, as a share of the largest of them or of 1.
const TOLERANCE: f32 = 1e-4;

/// Images, and what the model says of them.
pub(crate) struct Sample {
    /// Of one run of the file: the batch, and the shape of one image.
    shape: [usize; 4],
    images: Vec<f32>,
    logits: Vec<f32>,
}

impl Sample {
    /// Eight images, or the next multiple of a batch that is fixed.
    pub(crate) fn of(model: &Model, batch: Option<usize>) -> Result<Self, ExportError> {
        let (config, batch) = (model.config(), batch.unwrap_or(IMAGES));
        let size = config.img_size();
        let shape = [batch, config.in_chans(), size.height, size.width];
        let one: usize = shape.iter().skip(1).product();
        let count = IMAGES.next_multiple_of(batch);
        let mut rng = Key::new(0).named("export").rng();
        // About the values of normalised pixels.
        let images: Vec<f32> = (0..count * one)
            .map(|_| rng.random_range(-2.0..2.0))
            .collect();
        let device = device_of(model);
        let mut logits = Vec::new();
        for images in images.chunks(batch * one) {
            let images = Tensor::<4>::from_data(TensorData::new(images.to_vec(), shape), &device);
            let of_batch = model.forward(images, Phase::Eval).try_into_vec_as::<f32>();
            logits.extend(of_batch.map_err(|error| ExportError::Logits(error.to_string()))?);
        }
        Ok(Self {
            shape,
            images,
            logits,
        })
    }

    /// The largest difference between the logits of a file and those of the model.
    pub(crate) fn compare(&self, file: &[u8]) -> Result<f32, ExportError> {
        let found = self
            .run(file)
            .map_err(|error| ExportError::Check(format!("{error:#}")))?;
        let largest = self
            .logits
            .iter()
            .fold(1.0f32, |largest, x| largest.max(x.abs()));
        let tolerance = TOLERANCE * largest;
        let pairs = self.logits.iter().zip(&found);
        let difference = pairs.fold(0.0f32, |largest, (x, y)| {
            let difference = (x - y).abs();
            // `max` would pass a NaN over.
            if difference <= largest {
                largest
            } else {
                difference
            }
        });
        if found.len() != self.logits.len() || difference.is_nan() || difference > tolerance {
            return Err(ExportError::Differs {
                difference,
                tolerance,
            });
        }
        Ok(difference)
    }

    fn run(&self, file: &[u8]) -> TractResult<Vec<f32>> {
        let model = tract_onnx::onnx().model_for_read(&mut &*file)?;
        let model = model.with_input_fact(0, f32::fact(self.shape).into())?;
        let plan = model.into_optimized()?.into_runnable()?;
        let mut logits = Vec::new();
        for images in self.images.chunks(self.shape.iter().product()) {
            let images = tract_onnx::prelude::Tensor::from_shape(&self.shape, images)?;
            let out = plan.run(tvec!(images.into_tvalue()))?;
            let out = out.first().map(|out| out.cast_to::<f32>()).transpose()?;
            if let Some(out) = out {
                logits.extend(out.to_plain_array_view::<f32>()?.iter().copied());
            }
        }
        Ok(logits)
    }
}

/// Where a model's weights are.
fn device_of(model: &Model) -> Device {
    use burn::module::Module;
    let mut devices = model.devices().into_iter();
    devices.next().unwrap_or_else(Device::flex)
}
