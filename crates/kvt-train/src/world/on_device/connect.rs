//! Connects the devices of a job for sums.

use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Device, Tensor, TensorData};

use super::choice::{Offer, decide};
use super::engine::Library;
use super::settle::{LIMIT, settle};
use super::{DeviceSums, EngineError, GradientSum};
use crate::device::{Kind, ResolvedDevice};
use crate::world::{World, WorldError};

/// Checks whether the devices of all processes can sum on their own, and joins them. All processes must call it.
///
/// A missing requirement is not an error: gradients are then summed in host memory, and the [`GradientSum`] has the reason.
///
/// # Errors
/// If a process is lost.
pub fn connect(world: &Arc<dyn World>, device: &ResolvedDevice) -> Result<GradientSum, WorldError> {
    if world.is_alone() {
        return Ok(GradientSum::Host);
    }
    let (own, library) = match device.kind {
        Kind::Cuda => of_cuda(device),
        _ => (Offer::Host, None),
    };
    connect_by(world, &device.device, &own, library.as_deref(), LIMIT)
}

/// The offer of a process with a CUDA GPU, and the library if it offers one.
#[cfg(feature = "nccl")]
fn of_cuda(device: &ResolvedDevice) -> (Offer, Option<Box<dyn Library>>) {
    if let Some(reason) = super::environment::refusal(&|name| std::env::var(name).ok()) {
        return (Offer::Unable(reason), None);
    }
    let engine = match super::nccl::version() {
        Ok(engine) => engine,
        Err(error) => return (Offer::Unable(error.to_string()), None),
    };
    let offer = Offer::Gpu {
        host: crate::world::cores::host(),
        card: device.card(),
        engine,
    };
    let library = super::nccl::Library(device.device.clone());
    (offer, Some(Box::new(library)))
}

#[cfg(not(feature = "nccl"))]
fn of_cuda(_device: &ResolvedDevice) -> (Offer, Option<Box<dyn Library>>) {
    let reason = "this build of kvt has no NCCL: build with `--features cuda,mpi,nccl`";
    (Offer::Unable(reason.to_owned()), None)
}

/// [`connect`] with this process's offer, the library if it offers one, and the time limit for joining and later for each sum.
pub(super) fn connect_by(
    world: &Arc<dyn World>,
    device: &Device,
    own: &Offer,
    library: Option<&dyn Library>,
    limit: Duration,
) -> Result<GradientSum, WorldError> {
    let offers = world.collect(std::slice::from_ref(own))?;
    let (name, library) = match (decide(&offers), library) {
        (Ok(Some(name)), Some(library)) => (name, library),
        (Err(reason), _) => return Ok(GradientSum::HostInstead(reason)),
        // Processes join only if each of them has offered a library.
        _ => return Ok(GradientSum::Host),
    };
    match join(world, device, name, library, limit) {
        Ok(sums) => Ok(GradientSum::Device(Arc::new(sums))),
        Err(WorldError::Sums { rank, reason, .. }) => {
            let reason = format!("process {rank}: {reason}");
            Ok(GradientSum::HostInstead(reason))
        }
        Err(error) => Err(error),
    }
}

/// Joins the devices of all processes, and tries them out.
fn join(
    world: &Arc<dyn World>,
    device: &Device,
    name: String,
    library: &dyn Library,
    limit: Duration,
) -> Result<DeviceSums, WorldError> {
    let id = if world.is_first() {
        library.id()
    } else {
        Ok(Vec::new())
    };
    let made = id.as_ref().map(|_| true).map_err(Clone::clone);
    settle(&**world, made, &mut || Ok(true), limit)?;
    let id = world.share(0, id.unwrap_or_default())?;

    let mut engine = library.join(&id, world.rank(), world.size());
    let own = engine.as_ref().map(|_| false).map_err(Clone::clone);
    let mut poll = || match &mut engine {
        Ok(engine) => engine.poll(),
        Err(_) => Ok(true),
    };
    let joined = settle(&**world, own, &mut poll, limit);
    if let (Err(_), Ok(engine)) = (&joined, &mut engine) {
        engine.abort();
    }
    joined?;
    // Without an engine, this process has reported a failure.
    let engine = engine.map_err(|_| WorldError::Lost)?;
    let sums = DeviceSums::new(Arc::clone(world), engine, name, limit);
    try_out(&sums, device, library.name())?;
    Ok(sums)
}

/// Sums two buckets of numbers with known sums before training depends on it: device addresses are passed to a library that knows
/// nothing of their owner, and the second bucket follows the first one.
fn try_out(sums: &DeviceSums, device: &Device, library: &'static str) -> Result<(), WorldError> {
    /// Small enough that every sum is exact.
    const LENGTHS: [usize; 2] = [1000, 24];

    let (rank, size) = (sums.world.rank(), sums.world.size());
    let buckets = |first: usize, factor: usize| {
        let lengths = LENGTHS.into_iter().enumerate();
        lengths.map(move |(number, length)| -> Vec<f32> {
            let places = number..number + length;
            places
                .map(|place| (first + factor * place) as f32)
                .collect()
        })
    };
    let own = buckets(rank, 1);
    let expected = buckets(size * (size - 1) / 2, size);

    let own = own.map(|own| Tensor::from_data(own.as_slice(), device));
    let found = sums.sum(own, || {})?.into_iter().map(|found| {
        let found = found.try_into_data().ok().map(TensorData::convert::<f32>);
        found.and_then(|found| found.try_into_vec::<f32>().ok())
    });
    let own = if found.eq(expected.map(Some)) {
        Ok(true)
    } else {
        Err(EngineError {
            library,
            reason: "a sum whose result is known came out wrong".to_owned(),
        })
    };
    let settled = settle(&*sums.world, own, &mut || Ok(true), sums.limit);
    settled.inspect_err(|_| sums.abort())
}
