//! Shares the first process's state with all processes.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Tensor, TensorData};
use kvt_models::Network;
use kvt_models::weights::StateDict;
use serde::{Deserialize, Serialize};

use super::TrainError;
use super::progress::Progress;
use super::untrained::Untrained;
use super::update::TrainState;
use crate::recipe::LossScale;
use crate::task::Task;
use crate::world::{World, WorldError, agree};

/// A network with all values of the first process.
pub(super) fn shared<M: Module>(network: M, world: &dyn World) -> Result<M, TrainError> {
    let mut sharer = Sharer {
        world,
        failed: None,
    };
    let network = network.map(&mut sharer);
    match sharer.failed {
        Some(error) => Err(error),
        None => Ok(network),
    }
}

/// Gives a network, and all clones that share its state, the untrained state of the first process's network, such as the running
/// statistics of batch norms. Frozen weights are not sent, because they have not changed.
pub(super) fn share_untrained(network: &impl Network, world: &dyn World) -> Result<(), TrainError> {
    let (mut state, frozen) = (Untrained::of(network), network.frozen());
    state.0.retain(|(id, _)| !frozen.contains(id));
    for (_, tensor) in &mut state.0 {
        *tensor = share(tensor.clone(), world)?;
    }
    state.restore(network);
    Ok(())
}

/// A tensor with the values of the first process.
fn share<const D: usize>(tensor: Tensor<D>, world: &dyn World) -> Result<Tensor<D>, TrainError> {
    let (device, shape, dtype) = (tensor.device(), tensor.shape(), tensor.dtype());
    let trained = tensor.is_require_grad();
    let own = if world.is_first() {
        tensor
            .try_into_data()
            .map_err(|error| TrainError::Execution(error.to_string()))?
            .as_bytes()
            .to_vec()
    } else {
        Vec::new()
    };
    let bytes = world.share(0, own)?;
    let data = TensorData::from_bytes_vec(bytes, shape, dtype);
    Ok(Tensor::from_data(data, &device).set_require_grad(trained))
}

struct Sharer<'a> {
    world: &'a dyn World,
    failed: Option<TrainError>,
}

impl ModuleMapper for Sharer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        param.map(|tensor| match share(tensor.clone(), self.world) {
            Ok(shared) => shared,
            Err(error) => {
                self.failed = Some(error);
                tensor
            }
        })
    }
}

/// The name for the moments of the optimizer, which no task gives to a file of its own.
const MOMENTS: &str = "optimizer";

/// What the first process sends before the numbers of tensors.
#[derive(Serialize, Deserialize)]
struct Header {
    progress: Progress,
    updates: u32,
    loss_scale: Option<LossScale>,
    tensors: Vec<Entry>,
}

/// A tensor of the optimizer or of a file of the task.
#[derive(Serialize, Deserialize)]
struct Entry {
    file: String,
    name: String,
    shape: Vec<usize>,
    dtype: DType,
}

/// Gives all processes the state of the first one, when a run starts or resumes.
pub(super) fn share_state<T: Task>(
    world: &dyn World,
    mut state: TrainState<T>,
    progress: &mut Progress,
) -> Result<TrainState<T>, TrainError> {
    // The first process's data is prepared first, so that the others learn of a failure before they wait for it.
    let own = world.is_first().then(|| to_send(&state, *progress));
    let (header, own) = agree(world, own.transpose())?.unzip();
    let header = world.collect(header.as_slice())?.pop();
    let header: Header = header.ok_or(WorldError::Lost)?;
    let mut own = own.unwrap_or_default().into_iter();
    let mut files: BTreeMap<String, StateDict> = BTreeMap::new();
    for entry in &header.tensors {
        // Only the first process has it.
        let bytes = own.next().map(|data| data.as_bytes().to_vec());
        let bytes = world.share(0, bytes.unwrap_or_default())?;
        let data = TensorData::from_bytes_vec(bytes, entry.shape.clone(), entry.dtype);
        let file = files.entry(entry.file.clone()).or_default();
        file.insert(entry.name.clone(), data);
    }
    let taken = if world.is_first() {
        Ok(())
    } else {
        *progress = header.progress;
        take(&mut state, &header, files)
    };
    agree(world, taken)?;
    let ema = state.ema;
    Ok(TrainState {
        network: shared(state.network, world)?,
        ema: ema
            .map(|average| average.restore(|network| shared(network, world)))
            .transpose()?,
        ..state
    })
}

/// The header, and the tensors that it lists.
fn to_send<T: Task>(
    state: &TrainState<T>,
    progress: Progress,
) -> Result<(Header, Vec<TensorData>), TrainError> {
    let (moments, updates) = state.optimizer.state();
    let mut files: Vec<(&str, StateDict)> = vec![(MOMENTS, moments.into_iter().collect())];
    files.extend(state.task.state()?);
    let (mut entries, mut tensors) = (Vec::new(), Vec::new());
    for (file, content) in files {
        for (name, data) in content {
            entries.push(Entry {
                file: file.to_owned(),
                name,
                shape: data.shape().to_vec(),
                dtype: data.dtype(),
            });
            tensors.push(data);
        }
    }
    let header = Header {
        progress,
        updates,
        loss_scale: state.loss_scale,
        tensors: entries,
    };
    Ok((header, tensors))
}

/// Fills a fresh state with what the first process has sent: everything but networks.
fn take<T: Task>(
    state: &mut TrainState<T>,
    header: &Header,
    mut files: BTreeMap<String, StateDict>,
) -> Result<(), TrainError> {
    let moments = files.remove(MOMENTS).unwrap_or_default();
    let moments = moments.into_iter().collect();
    let optimizer = &mut state.optimizer;
    optimizer.load_state(moments, header.updates, &state.network)?;
    state.loss_scale = header.loss_scale;
    // The task says what a file without tensors lacks.
    let task = &mut state.task;
    task.load_state(&|name| Ok(files.get(name).cloned().unwrap_or_default()))
}
