#![expect(clippy::unwrap_used, reason = "tests")]

use burn::module::{Param, ParamId};
use burn::tensor::Device;
use kvt_testing::ranks::ranks;

use super::places::{BUCKET, Places};
use super::*;
use crate::recipe::Gradients;
use crate::world::on_device::testing::{Does, Fake, asked};
use crate::world::on_device::{DeviceSums, GradientSum};
use crate::world::threads;

/// No test waits for so long.
const LIMIT: Duration = Duration::from_mins(10);

/// Parameters of some lengths, with ids that are unique to this process.
fn network(lengths: &[usize]) -> Vec<Param<Tensor<1>>> {
    let zeros = |length: &usize| {
        let zeros = Tensor::zeros([*length], &Device::flex());
        Param::initialized(ParamId::new(), zeros)
    };
    lengths.iter().map(zeros).collect()
}

/// The first bucket is full after a parameter larger than a bucket. A gradient that only one process has counts with its share,
/// one that no process has is left out, and nothing else is exchanged: through the host, and on the devices.
#[test]
fn gradients_of_two_processes_by_hand() {
    for on_devices in [false, true] {
        for (found, buckets) in of_two_processes(on_devices) {
            let expected = [
                Some((3, -1.0)),
                Some((BUCKET + 1, 5.0)),
                None,
                Some((2, 6.0)),
            ];
            assert_eq!(found, expected);
            // The last layer comes first, and the third parameter is left out.
            let expected = on_devices.then(|| vec![2 + BUCKET + 1, 3]);
            assert_eq!(buckets, expected);
        }
    }
}

type Found = Vec<Option<(usize, f32)>>;

/// The length and the value of each parameter's mean gradient, and the buckets summed by the device.
fn of_two_processes(on_devices: bool) -> Vec<(Found, Option<Vec<usize>>)> {
    let lengths = [3, BUCKET + 1, 5, 2];
    let ranks = ranks(2);
    threads(2, |world| {
        let rank = world.rank();
        let network = network(&lengths);
        let has: &[(usize, f32)] = match rank {
            0 => &[(1, 4.0), (3, 8.0)],
            _ => &[(0, -4.0), (1, 8.0)],
        };
        let gradient = |&(place, value): &(usize, f32)| {
            let tensor = Tensor::full([lengths[place]], value, &Device::flex());
            (network[place].id, tensor)
        };
        let own = Gradients::of_tensors(has.iter().map(gradient).collect());
        let images = [6, 2][rank];
        let (fake, log) = Fake::new(ranks[rank].clone(), Does::Sums(0));
        let way = if on_devices {
            let name = "fake 1".to_owned();
            let sums = DeviceSums::new(Arc::clone(&world), Box::new(fake), name, LIMIT);
            GradientSum::Device(Arc::new(sums))
        } else {
            GradientSum::Host
        };
        let processes = Processes::new(world, true, way);
        let mean = processes.reduce(Some(own), (images, 8), &network).unwrap();
        let mut mean = mean.unwrap();
        let values = network
            .iter()
            .map(|param| {
                let (tensor, factor) = mean.remove(param.id)?;
                assert!((factor - 1.0).abs() < f64::EPSILON);
                let values = tensor.into_data().try_to_vec::<f32>().unwrap();
                assert!(values.iter().all(|value| *value == values[0]));
                Some((values.len(), values[0]))
            })
            .collect();
        (values, on_devices.then(|| asked(&log).buckets))
    })
}

/// One device cannot sum: no process gets gradients, and all get the same error.
#[test]
fn a_device_that_cannot_sum_is_an_error_of_all() {
    let ranks = ranks(2);
    let found = threads(2, |world| {
        let rank = world.rank();
        let does = [Does::Hangs, Does::FailsAfter(0)][rank].clone();
        let (fake, _) = Fake::new(ranks[rank].clone(), does);
        let name = "fake 1".to_owned();
        let sums = DeviceSums::new(Arc::clone(&world), Box::new(fake), name, LIMIT);
        let processes = Processes::new(world, true, GradientSum::Device(Arc::new(sums)));
        let network = network(&[3]);
        let gradient = Tensor::ones([3], &Device::flex());
        let own = Gradients::of_tensors(vec![(network[0].id, gradient)]);
        processes.reduce(Some(own), (1, 2), &network).unwrap_err()
    });
    for error in found {
        assert!(
            matches!(
                error,
                TrainError::World(WorldError::Sums {
                    rank: 1,
                    size: 2,
                    ..
                })
            ),
            "{error:?}"
        );
        assert!(error.is_known_to_all());
    }
}

#[test]
fn nobody_may_have_a_gradient() {
    let found = threads(2, |world| {
        let processes = Processes::new(world, true, GradientSum::Host);
        let mean = processes.reduce(None, (0, 4), &network(&[3])).unwrap();
        mean.is_none()
    });
    assert_eq!(found, [true, true]);
}

#[test]
fn buckets_are_filled_in_order() {
    let places = Places::of(&network(&[BUCKET, 5, 7, BUCKET + 1, 3]));
    assert_eq!(places.buckets((0..5).rev()), [vec![4, 3], vec![2, 1, 0]]);
    assert_eq!(places.length(&[2, 1, 0]), BUCKET + 12);
    assert!(places.buckets(std::iter::empty()).is_empty());
}

/// The losses of micro-batches 0, 2 and 1, and the first process's norm.
#[test]
fn losses_are_in_the_order_of_the_micro_batches() {
    let found = threads(2, |world| {
        let (own, places) = match world.rank() {
            0 => (vec![1.0, 3.0, 7.0], vec![0, 2]),
            _ => (vec![2.0, 7.5], vec![1]),
        };
        Processes::new(world, true, GradientSum::Host)
            .losses(Ok(own), &places, 3)
            .unwrap()
    });
    for found in found {
        assert_eq!(found, [1.0, 2.0, 3.0, 7.0]);
    }
}

#[test]
fn a_device_that_fails_is_told_to_all() {
    let found = threads(2, |world| {
        let own = match world.rank() {
            0 => Ok(vec![1.0, 7.0]),
            _ => Err(TrainError::Execution("lost".to_owned())),
        };
        let own_place = [world.rank()];
        let error = Processes::new(world, true, GradientSum::Host).losses(own, &own_place, 2);
        error.unwrap_err().to_string()
    });
    for text in found {
        assert!(
            text.starts_with("process 1 of 2: ") && text.contains("lost"),
            "{text}"
        );
    }
}
