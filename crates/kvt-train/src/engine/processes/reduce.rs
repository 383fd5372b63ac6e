//! Sums the gradients of all processes.
//!
//! Parameters are identified by their place in the network, since their ids are random in every process. Gradients are summed in
//! f32, from the last layer to the first, in buckets. In host memory a bucket is sent while the next one is packed; on devices
//! all are packed first.

use std::time::{Duration, Instant};

use burn::module::{Module, ParamId};
use burn::tensor::{DType, Device, Tensor};
use kvt_ops::in_type;

use super::places::Places;
use super::{Processes, read};
use crate::error::TrainError;
use crate::recipe::Gradients;
use crate::world::WorldError;
use crate::world::on_device::{DeviceSums, GradientSum};

/// This process's contribution.
struct Own<'a> {
    places: &'a Places,
    /// The places of each bucket.
    buckets: &'a [Vec<usize>],
    gradients: Vec<Option<Tensor<1>>>,
    /// The factor of the gradients.
    share: f64,
}

impl Processes {
    /// The mean of the processes' gradients over `images`; this process's gradients are the mean over `own_images`. `None` if no
    /// process has any.
    pub(in crate::engine) fn reduce(
        &self,
        own: Option<Gradients>,
        (own_images, images): (usize, usize),
        network: &impl Module,
    ) -> Result<Option<Gradients>, TrainError> {
        if self.world.is_alone() {
            return Ok(own);
        }
        let places = Places::of(network);
        let tensors = own.map(Gradients::into_tensors).unwrap_or_default();
        let gradients: Vec<Option<Tensor<1>>> = places.sort(tensors);
        // A parameter has a gradient if it got one in any process.
        let mut holders: Vec<f64> = Vec::new();
        for gradient in &gradients {
            holders.push(f64::from(u8::from(gradient.is_some())));
        }
        self.timed(|| self.world.sum(&mut holders))?;
        let from_the_last = (0..holders.len()).rev();
        let buckets = places.buckets(from_the_last.filter(|place| holders[*place] > 0.0));

        let devices = network.devices();
        let Some(device) = devices.into_iter().next().map(|device| device.inner()) else {
            return Ok(None);
        };
        let own = Own {
            places: &places,
            buckets: &buckets,
            gradients,
            // The same weight as in the accumulator, so that the sums match its own bit for bit.
            share: own_images as f64 / images as f64,
        };
        let sums = match &self.way {
            GradientSum::Device(sums) => self.on_device(sums, own, &device)?,
            GradientSum::Host | GradientSum::HostInstead(_) => self.on_host(own, &device)?,
        };
        let mut sums: Vec<(usize, Tensor<1>)> = buckets.into_iter().flatten().zip(sums).collect();
        sums.sort_by_key(|(place, _)| *place);
        let summed = sums
            .into_iter()
            .map(|(place, sum)| (places.ids[place], sum));
        let summed: Vec<(ParamId, Tensor<1>)> = summed.collect();
        Ok((!summed.is_empty()).then(|| Gradients::of_tensors(summed)))
    }

    /// The sums at the places of all buckets, in order, through host memory.
    fn on_host(&self, mut own: Own<'_>, device: &Device) -> Result<Vec<Tensor<1>>, WorldError> {
        let (places, buckets) = (own.places, own.buckets);
        let lengths: Vec<usize> = buckets.iter().map(|bucket| places.length(bucket)).collect();
        let mut reading = Duration::ZERO;
        let start = Instant::now();
        let sums = self.world.sum_buckets(&lengths, &mut |number, bucket| {
            let packing = Instant::now();
            let mut rest = bucket;
            for place in buckets.get(number).into_iter().flatten() {
                let (own_part, after) =
                    std::mem::take(&mut rest).split_at_mut(places.lengths[*place]);
                rest = after;
                if let Some(gradient) = own.gradients[*place].take() {
                    read(gradient * own.share, own_part);
                }
            }
            reading += packing.elapsed();
        })?;
        self.note(start.elapsed().saturating_sub(reading));

        let mut tensors = Vec::new();
        for (sum, bucket) in sums.into_iter().zip(buckets) {
            let mut rest = sum.as_slice();
            for place in bucket {
                let (own_part, after) = rest.split_at(places.lengths[*place]);
                rest = after;
                tensors.push(Tensor::from_data(own_part, device));
            }
        }
        Ok(tensors)
    }

    /// The same on the devices. Only the wait after packing the last bucket counts as communication.
    fn on_device(
        &self,
        sums: &DeviceSums,
        mut own: Own<'_>,
        device: &Device,
    ) -> Result<Vec<Tensor<1>>, WorldError> {
        let lengths = &own.places.lengths;
        let packed = own.buckets.iter().map(|bucket| {
            let parts = bucket
                .iter()
                .map(|place| match own.gradients[*place].take() {
                    Some(gradient) => in_type(gradient * own.share, DType::F32),
                    None => Tensor::zeros([lengths[*place]], (device, DType::F32)),
                });
            Tensor::cat(parts.collect(), 0)
        });
        let mut start = Instant::now();
        let sums = sums.sum(packed, || start = Instant::now())?;
        self.note(start.elapsed());

        let mut tensors = Vec::new();
        for (sum, bucket) in sums.into_iter().zip(own.buckets) {
            let mut from = 0;
            for place in bucket {
                let to = from + lengths[*place];
                tensors.push(sum.clone().slice(from..to));
                from = to;
            }
        }
        Ok(tensors)
    }
}
