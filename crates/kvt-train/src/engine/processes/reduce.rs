//! Sums the gradients of all processes.
//!
//! Parameters are identified by their place in the network, since their ids are random in every process. Gradients are summed in
//! f32, from the last layer to the first, in buckets. In host memory a bucket is sent while the next one is packed; on devices
//! all are packed first.

use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::{DType, Tensor};
use kvt_ops::in_type;

use super::places::Places;
use super::{Processes, read};
use crate::error::TrainError;
use crate::recipe::Gradients;
use crate::world::WorldError;
use crate::world::on_device::GradientSum;

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
        let mut gradients: Vec<Option<Tensor<1>>> = places.sort(tensors);
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
        // The same weight as in the accumulator, so that the sums match its own bit for bit.
        let share = own_images as f64 / images as f64;
        let pack = |bucket: &Vec<usize>| {
            let parts = bucket.iter().map(|place| match gradients[*place].take() {
                Some(gradient) => in_type(gradient * share, DType::F32),
                None => Tensor::zeros([places.lengths[*place]], (&device, DType::F32)),
            });
            Tensor::cat(parts.collect(), 0)
        };
        let sums = match &self.way {
            GradientSum::Device(sums) => {
                // Only the wait after packing the last bucket counts as communication.
                let mut start = Instant::now();
                let sums = sums.sum(buckets.iter().map(pack), || start = Instant::now())?;
                self.note(start.elapsed());
                sums
            }
            GradientSum::Host | GradientSum::HostInstead(_) => {
                let lengths: Vec<usize> = buckets.iter().map(|b| places.length(b)).collect();
                let sums = self.on_host(&lengths, buckets.iter().map(pack))?;
                let upload = |sum: Vec<f32>| Tensor::from_data(sum.as_slice(), &device);
                sums.into_iter().map(upload).collect()
            }
        };
        let mut summed: Vec<(usize, Tensor<1>)> = Vec::new();
        for (sum, bucket) in sums.into_iter().zip(buckets) {
            let mut from = 0;
            for place in bucket {
                let to = from + places.lengths[place];
                summed.push((place, sum.clone().slice(from..to)));
                from = to;
            }
        }
        summed.sort_by_key(|(place, _)| *place);
        let summed = summed.into_iter();
        let summed: Vec<_> = summed
            .map(|(place, sum)| (places.ids[place], sum))
            .collect();
        Ok((!summed.is_empty()).then(|| Gradients::of_tensors(summed)))
    }

    /// The sums of buckets of these lengths through host memory. What packs and reads a bucket does not count as communication.
    fn on_host(
        &self,
        lengths: &[usize],
        mut packed: impl Iterator<Item = Tensor<1>>,
    ) -> Result<Vec<Vec<f32>>, WorldError> {
        let mut reading = Duration::ZERO;
        let start = Instant::now();
        let sums = self.world.sum_buckets(lengths, &mut |_, bucket| {
            let packing = Instant::now();
            if let Some(own) = packed.next() {
                read(own, bucket);
            }
            reading += packing.elapsed();
        })?;
        self.note(start.elapsed().saturating_sub(reading));
        Ok(sums)
    }
}
