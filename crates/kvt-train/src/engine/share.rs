//! Shares the first process's state with all processes.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use kvt_models::weights::StateDict;

use super::TrainError;
use super::progress::Progress;
use super::update::TrainState;
use crate::recipe::{LossScale, Network};
use crate::task::Task;
use crate::world::{Tensors, World, WorldError, agree, decode, encode};

/// A network with all values of the first process.
pub(super) fn shared<M: Module>(network: M, world: &dyn World) -> Result<M, TrainError> {
    Sharer::new(world, false).map(network)
}

/// Gives a network, and all clones that share its state, the untrained state of the first process's network, such as the running
/// statistics of batch norms.
pub(super) fn share_untrained(network: &impl Module, world: &dyn World) -> Result<(), TrainError> {
    Sharer::new(world, true).map(network.clone()).map(|_| ())
}

struct Sharer<'a> {
    world: &'a dyn World,
    /// Whether trained values stay unchanged.
    untrained: bool,
    failed: Option<TrainError>,
}

impl<'a> Sharer<'a> {
    fn new(world: &'a dyn World, untrained: bool) -> Self {
        Self {
            world,
            untrained,
            failed: None,
        }
    }

    fn map<M: Module>(mut self, network: M) -> Result<M, TrainError> {
        let network = network.map(&mut self);
        match self.failed {
            Some(error) => Err(error),
            None => Ok(network),
        }
    }

    fn share<const D: usize>(&self, tensor: Tensor<D>) -> Result<Tensor<D>, TrainError> {
        let (device, shape, dtype) = (tensor.device(), tensor.shape(), tensor.dtype());
        let trained = tensor.is_require_grad();
        let own = match self.world.is_first() {
            true => tensor
                .try_into_data()
                .map_err(|error| TrainError::Execution(error.to_string()))?
                .as_bytes()
                .to_vec(),
            false => Vec::new(),
        };
        let bytes = self.world.share(0, own)?;
        let data = TensorData::from_bytes_vec(bytes, shape, dtype);
        Ok(Tensor::from_data(data, &device).set_require_grad(trained))
    }
}

impl ModuleMapper for Sharer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() || self.untrained && param.val().is_require_grad() {
            return param;
        }
        param.map(|tensor| match self.share(tensor.clone()) {
            Ok(shared) => shared,
            Err(error) => {
                self.failed = Some(error);
                tensor
            }
        })
    }
}

/// Gives all processes the state of the first one, when a run starts or resumes.
pub(super) fn share_state<T: Task>(
    world: &dyn World,
    state: TrainState<T>,
    progress: &mut Progress,
) -> Result<TrainState<T>, TrainError> {
    let is_first = world.is_first();
    // The first process's data is prepared first, so that the others learn of a failure before they wait for it.
    let own = match is_first {
        true => Sent::of(&state),
        false => Ok(Sent::default()),
    };
    let sent = agree(world, own)?;
    let parts = [
        serde_json::to_vec(&(*progress, sent.updates, sent.loss_scale)).unwrap_or_default(),
        encode(&sent.network),
        encode(&sent.ema),
        encode(&sent.moments),
        serde_json::to_vec(&sent.files.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .unwrap_or_default(),
    ];
    let mut received = Vec::new();
    for part in parts {
        received.push(world.share(0, part)?);
    }
    let names: Vec<String> =
        serde_json::from_slice(received.last().map_or(&[][..], Vec::as_slice)).unwrap_or_default();
    let mut files = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let own = sent.files.get(number).map(|(_, tensors)| encode(tensors));
        files.push((name, world.share(0, own.unwrap_or_default())?));
    }
    let taken = match is_first {
        true => Ok(state),
        false => take(state, progress, &received, &files),
    };
    agree(world, taken)
}

/// The state that the first process sends.
#[derive(Default)]
struct Sent {
    updates: u32,
    loss_scale: Option<LossScale>,
    network: Tensors,
    ema: Tensors,
    moments: Tensors,
    files: Vec<(String, Tensors)>,
}

impl Sent {
    fn of<T: Task>(state: &TrainState<T>) -> Result<Self, TrainError> {
        let (moments, updates) = state.optimizer.state();
        let files = state.task.state()?.into_iter();
        Ok(Self {
            updates,
            loss_scale: state.loss_scale,
            network: named(&state.network.state_dict()?),
            ema: match &state.ema {
                Some(ema) => named(&ema.network().state_dict()?),
                None => Vec::new(),
            },
            moments: moments.into_iter().collect(),
            files: files
                .map(|(name, tensors)| (name.to_owned(), named(&tensors)))
                .collect(),
        })
    }
}

fn named(state: &StateDict) -> Tensors {
    let tensors = state.iter();
    tensors
        .map(|(name, data)| (name.to_owned(), data.clone()))
        .collect()
}

/// A fresh state filled with what the first process has sent.
fn take<T: Task>(
    fresh: TrainState<T>,
    progress: &mut Progress,
    received: &[Vec<u8>],
    files: &[(String, Vec<u8>)],
) -> Result<TrainState<T>, TrainError> {
    let tensors = |bytes: &[u8]| decode(bytes).ok_or(TrainError::World(WorldError::Lost));
    let dict =
        |bytes: &[u8]| Ok::<_, TrainError>(tensors(bytes)?.into_iter().collect::<StateDict>());
    let [header, network, ema, moments, ..] = received else {
        return Err(WorldError::Lost.into());
    };
    let (sent, updates, loss_scale): (Progress, u32, Option<LossScale>) =
        serde_json::from_slice(header).map_err(|_| WorldError::Lost)?;
    *progress = sent;
    let (network, _) = fresh.network.load_state_dict(&dict(network)?)?;
    let ema = match fresh.ema {
        Some(average) => {
            let dict = dict(ema)?;
            let load = |network: T::Network| Ok::<_, TrainError>(network.load_state_dict(&dict)?.0);
            Some(average.restore(load)?)
        }
        None => None,
    };
    let mut optimizer = fresh.optimizer;
    optimizer.load_state(tensors(moments)?.into_iter().collect(), updates, &network)?;
    let mut task = fresh.task;
    task.load_state(&|name| {
        let bytes = files.iter().find(|(known, _)| known == name);
        let (_, bytes) = bytes.ok_or(WorldError::Lost)?;
        dict(bytes)
    })?;
    Ok(TrainState {
        network,
        task,
        optimizer,
        ema,
        loss_scale,
    })
}
