//! Connects the devices of a job for sums.

use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Device, Tensor, TensorData};

use super::choice::{Decision, Offer, decide};
use super::engine::Library;
use super::settle::{Failed, LIMIT, settle};
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
    let own = match device.kind() {
        Some(Kind::Cuda) => of_cuda(device),
        _ => Offer::Host,
    };
    let library = library(&device.device);
    connect_by(world, &device.device, &own, &library, LIMIT)
}

#[cfg(feature = "nccl")]
fn of_cuda(device: &ResolvedDevice) -> Offer {
    if let Some(reason) = super::environment::refusal(&|name| std::env::var(name).ok()) {
        return Offer::Unable(reason);
    }
    match super::nccl::version() {
        Ok(engine) => Offer::Gpu {
            host: crate::world::cores::host(),
            card: device.card(),
            engine,
        },
        Err(error) => Offer::Unable(error.to_string()),
    }
}

#[cfg(not(feature = "nccl"))]
fn of_cuda(_device: &ResolvedDevice) -> Offer {
    Offer::Unable("this build of kvt has no NCCL: build with `--features cuda,mpi,nccl`".to_owned())
}

#[cfg(feature = "nccl")]
fn library(device: &Device) -> impl Library {
    super::nccl::Library::new(device.clone())
}

#[cfg(not(feature = "nccl"))]
fn library(_device: &Device) -> impl Library {
    /// A build without any library offers none.
    struct NoLibrary;

    impl Library for NoLibrary {
        fn name(&self) -> &'static str {
            "no library"
        }

        fn id(&self) -> Result<Vec<u8>, EngineError> {
            Ok(Vec::new())
        }

        fn join(
            &self,
            _: &[u8],
            _: usize,
            _: usize,
        ) -> Result<Box<dyn super::Engine>, EngineError> {
            Err(EngineError {
                library: self.name(),
                reason: "not in this build".to_owned(),
            })
        }
    }

    NoLibrary
}

/// [`connect`] with this process's offer, the library for joining, and the time limit for joining and later for each sum.
pub(super) fn connect_by(
    world: &Arc<dyn World>,
    device: &Device,
    own: &Offer,
    library: &dyn Library,
    limit: Duration,
) -> Result<GradientSum, WorldError> {
    let name = match decide(&offers(&**world, own)?) {
        Decision::Host => return Ok(GradientSum::Host),
        Decision::Instead(reason) => return Ok(GradientSum::HostInstead(reason)),
        Decision::Join(name) => name,
    };
    let instead = |failed: Failed| {
        let Failed { rank, reason } = failed;
        Ok(GradientSum::HostInstead(format!(
            "process {rank}: {reason}"
        )))
    };

    let id = if world.is_first() {
        library.id()
    } else {
        Ok(Vec::new())
    };
    let made = id.as_ref().map(|_| true).map_err(Clone::clone);
    if let Err(failed) = settle(&**world, made, &mut || Ok(true), limit)? {
        return instead(failed);
    }
    let id = world.share(0, id.unwrap_or_default())?;

    let (mut engine, own) = match library.join(&id, world.rank(), world.size()) {
        Ok(engine) => (Some(engine), Ok(false)),
        Err(error) => (None, Err(error)),
    };
    let mut poll = || match &mut engine {
        Some(engine) => engine.poll(),
        None => Ok(true),
    };
    let joined = settle(&**world, own, &mut poll, limit)?;
    if let (Err(_), Some(engine)) = (&joined, &mut engine) {
        engine.abort();
    }
    let engine = match (joined, engine) {
        (Ok(()), Some(engine)) => engine,
        (Err(failed), _) => return instead(failed),
        // Unreachable: without an engine, the process would have reported a failure.
        (Ok(()), None) => return Err(WorldError::Lost),
    };
    let sums = DeviceSums::new(Arc::clone(world), engine, name).within(limit);
    match try_out(&sums, device, library.name())? {
        Ok(()) => Ok(GradientSum::Device(Arc::new(sums))),
        Err(failed) => instead(failed),
    }
}

/// The offers of all processes, in order of rank.
fn offers(world: &dyn World, own: &Offer) -> Result<Vec<Offer>, WorldError> {
    // Most jobs have no offers, and so send nothing.
    let line = match own {
        Offer::Host => None,
        own => serde_json::to_string(&(world.rank(), own)).ok(),
    };
    let lines = world.collect(line.as_slice())?;
    let mut all = vec![Offer::Host; world.size()];
    for line in lines {
        let (rank, offer): (usize, Offer) =
            serde_json::from_str(&line).map_err(|_| WorldError::Lost)?;
        if let Some(place) = all.get_mut(rank) {
            *place = offer;
        }
    }
    Ok(all)
}

/// Sums two buckets of numbers with known sums before training depends on it: device addresses are passed to a library that knows
/// nothing of their owner, and the second bucket follows the first one.
fn try_out(
    sums: &DeviceSums,
    device: &Device,
    library: &'static str,
) -> Result<Result<(), Failed>, WorldError> {
    /// Small enough that every sum is exact.
    const LENGTHS: [usize; 2] = [1000, 24];

    let (rank, size) = (sums.world.rank(), sums.world.size());
    let bucket = |of: &dyn Fn(usize) -> usize, number: usize, length: usize| -> Vec<f32> {
        (0..length).map(|place| of(number + place) as f32).collect()
    };
    let numbers = |of: &dyn Fn(usize) -> usize| -> Vec<Vec<f32>> {
        let lengths = LENGTHS.into_iter().enumerate();
        lengths
            .map(|(number, length)| bucket(of, number, length))
            .collect()
    };
    let ranks = size * (size - 1) / 2;
    let own = numbers(&|number| rank + number).into_iter();
    let expected = numbers(&|number| ranks + size * number);

    let exchange = sums.prepare(own.map(|own| Tensor::from_data(own.as_slice(), device)));
    let found = match exchange.finish() {
        Ok(found) => found,
        Err(WorldError::Sums { rank, reason, .. }) => return Ok(Err(Failed { rank, reason })),
        Err(error) => return Err(error),
    };
    let found = found.into_iter().map(|found| {
        let found = found.try_into_data().ok().map(TensorData::convert::<f32>);
        found.and_then(|found| found.try_into_vec::<f32>().ok())
    });
    let own = if found.eq(expected.into_iter().map(Some)) {
        Ok(true)
    } else {
        Err(EngineError {
            library,
            reason: "a sum whose result is known came out wrong".to_owned(),
        })
    };
    let settled = settle(&*sums.world, own, &mut || Ok(true), sums.limit)?;
    if settled.is_err() {
        sums.abort();
    }
    Ok(settled)
}
