//! From the devices of a job to what sums on them.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};

use super::choice::{Decision, Offer, decide};
use super::settle::{Failed, settle};
use super::{DeviceSums, Engine, EngineError, Way};
use crate::device::{Kind, ResolvedDevice};
use crate::world::{World, WorldError};

/// A library that sums on devices, before the processes have joined.
pub(super) trait Library {
    /// What the first process makes for all to join by.
    fn id(&self) -> Result<Vec<u8>, EngineError>;

    /// Begins to join, without waiting for the others: that is done when the engine's [`poll`](Engine::poll) says so.
    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError>;
}

/// Finds out whether the devices of all processes can add up by themselves, and joins them. All processes must call it.
///
/// Whatever is missing is no error: gradients then go by way of host memory, and the [`Way`] says why.
///
/// # Errors
/// If a process is lost.
pub fn connect(world: &Arc<dyn World>, device: &ResolvedDevice) -> Result<Way, WorldError> {
    if world.is_alone() {
        return Ok(Way::Host);
    }
    let own = match device.kind() {
        Some(Kind::Cuda) => of_cuda(device),
        _ => Offer::Host,
    };
    connect_by(world, &device.device, &own, &library(&device.device))
}

#[cfg(feature = "nccl")]
fn of_cuda(device: &ResolvedDevice) -> Offer {
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
    /// In a build without any, nobody offers one.
    struct NoLibrary;

    impl Library for NoLibrary {
        fn id(&self) -> Result<Vec<u8>, EngineError> {
            Ok(Vec::new())
        }

        fn join(&self, _: &[u8], _: usize, _: usize) -> Result<Box<dyn Engine>, EngineError> {
            Err(EngineError {
                library: "NCCL",
                reason: "not in this build".to_owned(),
            })
        }
    }

    NoLibrary
}

/// [`connect`] with what this process has, and the library that it would join by.
pub(super) fn connect_by(
    world: &Arc<dyn World>,
    device: &Device,
    own: &Offer,
    library: &dyn Library,
) -> Result<Way, WorldError> {
    let name = match decide(&offers(&**world, own)?) {
        Decision::Host => return Ok(Way::Host),
        Decision::Instead(reason) => return Ok(Way::HostInstead(reason)),
        Decision::Join(name) => name,
    };
    let instead = |failed: Failed| {
        let Failed { rank, reason } = failed;
        Ok(Way::HostInstead(format!("process {rank}: {reason}")))
    };

    let id = match world.is_first() {
        true => library.id(),
        false => Ok(Vec::new()),
    };
    let made = id.as_ref().map(|_| true).map_err(Clone::clone);
    if let Err(failed) = settle(&**world, made, &mut || Ok(true))? {
        return instead(failed);
    }
    let id = world.share(0, id.unwrap_or_default())?;

    let (mut engine, own) = match library.join(&id, world.rank(), world.size()) {
        Ok(engine) => (Some(engine), Ok(false)),
        Err(error) => (None, Err(error)),
    };
    let joined = settle(&**world, own, &mut || match &mut engine {
        Some(engine) => engine.poll(),
        None => Ok(true),
    })?;
    if let (Err(_), Some(engine)) = (&joined, &mut engine) {
        engine.abort();
    }
    let engine = match (joined, engine) {
        (Ok(()), Some(engine)) => engine,
        (Err(failed), _) => return instead(failed),
        // Settled without an engine: it would have said that it failed.
        (Ok(()), None) => return Err(WorldError::Lost),
    };
    let sums = DeviceSums::new(Arc::clone(world), engine, name);
    match try_out(&sums, device)? {
        Ok(()) => Ok(Way::Device(Arc::new(sums))),
        Err(failed) => instead(failed),
    }
}

/// The offers of all processes, in their order.
fn offers(world: &dyn World, own: &Offer) -> Result<Vec<Offer>, WorldError> {
    // Most jobs have nothing to offer, and send nothing.
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

/// Sums some numbers whose sum is known, before weights depend on it: addresses of device memory are handed to a library
/// that knows nothing of their owner.
fn try_out(sums: &DeviceSums, device: &Device) -> Result<Result<(), Failed>, WorldError> {
    /// Small enough for every sum to be exact.
    const NUMBERS: usize = 1000;

    let (rank, size) = (sums.world.rank(), sums.world.size());
    let own: Vec<f32> = (0..NUMBERS).map(|place| (rank + place) as f32).collect();
    let ranks = size * (size - 1) / 2;
    let expected: Vec<f32> = (0..NUMBERS)
        .map(|place| (ranks + size * place) as f32)
        .collect();

    let mut exchange = sums.begin();
    exchange.start(|| Tensor::from_data(own.as_slice(), device));
    let found = match exchange.finish() {
        Ok(found) => found,
        Err(WorldError::Sums { rank, reason, .. }) => return Ok(Err(Failed { rank, reason })),
        Err(error) => return Err(error),
    };
    let found = found
        .into_iter()
        .next()
        .and_then(|found| found.try_into_data().ok())
        .map(TensorData::convert::<f32>);
    let is_right = found.is_some_and(|found| {
        found
            .as_slice::<f32>()
            .is_ok_and(|found| *found == expected)
    });
    let own = match is_right {
        true => Ok(true),
        false => Err(EngineError {
            library: "NCCL",
            reason: "a sum whose result is known came out wrong".to_owned(),
        }),
    };
    let settled = settle(&*sums.world, own, &mut || Ok(true))?;
    if settled.is_err() {
        sums.begin().engine.abort();
    }
    Ok(settled)
}
