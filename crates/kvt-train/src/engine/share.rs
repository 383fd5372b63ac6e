//! Shares the first process's state with all processes.

use std::collections::HashSet;

use burn::module::{Module, ModuleMapper, Param, ParamId};
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
    Sharer::new(world, None).map(network)
}

/// Gives a network, and all clones that share its state, the untrained state of the first process's network, such as the running
/// statistics of batch norms: only these change in place, and other results are dropped. Frozen weights are not sent, because that has no effect.
pub(super) fn share_untrained(network: &impl Network, world: &dyn World) -> Result<(), TrainError> {
    let sharer = Sharer::new(world, Some(network.frozen().into_iter().collect()));
    sharer.map(network.clone()).map(|_| ())
}

struct Sharer<'a> {
    world: &'a dyn World,
    /// `None`: all values are sent. `Some`: only untrained ones, and none of these.
    frozen: Option<HashSet<ParamId>>,
    failed: Option<TrainError>,
}

impl<'a> Sharer<'a> {
    fn new(world: &'a dyn World, frozen: Option<HashSet<ParamId>>) -> Self {
        Self {
            world,
            frozen,
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
        let own = if self.world.is_first() {
            tensor
                .try_into_data()
                .map_err(|error| TrainError::Execution(error.to_string()))?
                .as_bytes()
                .to_vec()
        } else {
            Vec::new()
        };
        let bytes = self.world.share(0, own)?;
        let data = TensorData::from_bytes_vec(bytes, shape, dtype);
        Ok(Tensor::from_data(data, &device).set_require_grad(trained))
    }
}

impl ModuleMapper for Sharer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let frozen = self.frozen.as_ref();
        let stays = frozen
            .is_some_and(|frozen| frozen.contains(&param.id) || param.val().is_require_grad());
        if self.failed.is_some() || stays {
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
    let own = if is_first {
        Sent::of(&state, *progress)
    } else {
        Ok(Sent::default())
    };
    let own = agree(world, own)?;
    let names = world.share(0, own.names)?;
    let names: Vec<String> = serde_json::from_slice(&names).map_err(unreadable)?;
    let mut parts = own.parts;
    for part in &mut parts {
        *part = world.share(0, std::mem::take(part))?;
    }
    let mut own_files = own.files.into_iter();
    let mut files = Vec::new();
    for name in names {
        // Only the first process has one.
        let file = own_files.next().unwrap_or_default();
        files.push((name, world.share(0, file)?));
    }
    let taken = if is_first {
        Ok(state)
    } else {
        take(state, progress, &parts, &files)
    };
    let state = agree(world, taken)?;
    // What was sent has the factors of LoRA merged into the weights beside them: here they come apart.
    let ema = state.ema;
    Ok(TrainState {
        network: shared(state.network, world)?,
        ema: ema
            .map(|average| average.restore(|network| shared(network, world)))
            .transpose()?,
        ..state
    })
}

/// What the first process sends; nothing in the others.
#[derive(Default)]
struct Sent {
    /// The counters, the network, its average, and the moments of the optimizer.
    parts: [Vec<u8>; 4],
    /// The names of the task's files, and their content.
    names: Vec<u8>,
    files: Vec<Vec<u8>>,
}

impl Sent {
    fn of<T: Task>(state: &TrainState<T>, progress: Progress) -> Result<Self, TrainError> {
        let (moments, updates) = state.optimizer.state();
        let ema = match &state.ema {
            Some(ema) => named(&ema.network().state_dict()?),
            None => Vec::new(),
        };
        let files = state.task.state()?;
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let files = files.iter().map(|(_, tensors)| encode(&named(tensors)));
        let counters = (progress, updates, state.loss_scale);
        Ok(Self {
            parts: [
                serde_json::to_vec(&counters).map_err(unreadable)?,
                encode(&named(&state.network.state_dict()?))?,
                encode(&ema)?,
                encode(&moments.into_iter().collect())?,
            ],
            names: serde_json::to_vec(&names).map_err(unreadable)?,
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

/// State that cannot be written as JSON, or read.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` calls it")]
fn unreadable(error: serde_json::Error) -> WorldError {
    WorldError::State(error.to_string())
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
    [counters, network, ema, moments]: &[Vec<u8>; 4],
    files: &[(String, Vec<u8>)],
) -> Result<TrainState<T>, TrainError> {
    let tensors = |bytes: &[u8]| decode(bytes).map_err(TrainError::World);
    let dict =
        |bytes: &[u8]| Ok::<_, TrainError>(tensors(bytes)?.into_iter().collect::<StateDict>());
    let (sent, updates, loss_scale): (Progress, u32, Option<LossScale>) =
        serde_json::from_slice(counters).map_err(unreadable)?;
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
        let missing = || WorldError::State(format!("there is no `{name}`"));
        let (_, bytes) = bytes.ok_or_else(missing)?;
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
