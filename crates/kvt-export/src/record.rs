//! A forward pass as a list of operations.

use std::collections::{BTreeMap, HashMap};

use burn::backend::Capture;
use burn::backend::ir::OperationIr;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{CapturedGraph, Device, Tensor, TensorData, TensorId};
use kvt_models::Model;
use kvt_ops::Phase;

use crate::error::ExportError;

/// What a model does with a batch.
pub(crate) struct Recording {
    /// In their order.
    pub(crate) operations: Vec<OperationIr>,
    /// Weights, and what a forward pass makes on the host.
    pub(crate) values: BTreeMap<TensorId, TensorData>,
    /// timm's names of the weights.
    pub(crate) names: HashMap<TensorId, String>,
    /// The images, `[batch, channels, height, width]`.
    pub(crate) input: Option<TensorId>,
    /// The logits, `[batch, classes]`.
    pub(crate) output: Option<TensorId>,
}

/// Records the forward pass of a batch of `batch` images, without computing it.
///
/// The running statistics of batch norms, which clones of a model share, move to the recording device: afterwards the model is of no use.
pub(crate) fn record(model: &Model, batch: usize) -> Result<Recording, ExportError> {
    let (device, config) = (Device::capture(), model.config());
    let size = config.img_size();
    let shape = [batch, config.in_chans(), size.height, size.width];
    let mut weights = Weights::default();
    let captured = device.capture_scope(|scope| {
        let model = model.clone().to_device(&device);
        model.visit(&mut weights);
        // Images that the scope did not make are not a constant.
        let images = Tensor::<4>::zeros(shape, &Device::flex()).to_device(&device);
        let logits = model.forward(images.clone(), Phase::Eval);
        scope.complete(id(&images), id(&logits))
    });
    let CapturedGraph { graph, values } = captured.map_err(ExportError::Record)?;
    let named: HashMap<ParamId, String> = model
        .state()
        .into_iter()
        .map(|entry| (entry.id, entry.name))
        .collect();
    let names = weights.0.into_iter();
    Ok(Recording {
        // When tensors begin and end to exist says nothing.
        operations: graph
            .operations
            .into_iter()
            .filter(|of| !matches!(of, OperationIr::Init(_) | OperationIr::Drop(_)))
            .collect(),
        values,
        names: names
            .filter_map(|(param, id)| Some((id, named.get(&param)?.clone())))
            .collect(),
        input: graph.inputs.first().copied(),
        output: graph.outputs.first().copied(),
    })
}

/// The tensors of a module on the recording device.
#[derive(Default)]
struct Weights(Vec<(ParamId, TensorId)>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(id(&param.val()).map(|id| (param.id, id)));
    }
}

/// The identity of a tensor on the recording device.
fn id<const D: usize>(tensor: &Tensor<D>) -> Option<TensorId> {
    let tensor = tensor.clone().try_into_primitive::<Capture>().ok()?;
    Some(tensor.id())
}

#[cfg(test)]
pub(crate) mod testing {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// What is done with a tensor of a shape.
    pub(crate) fn recording(work: impl Fn(Tensor<2>) -> Tensor<2>, shape: [usize; 2]) -> Recording {
        let device = Device::capture();
        let captured = device.capture_scope(|scope| {
            let input = Tensor::<2>::zeros(shape, &Device::flex()).to_device(&device);
            let output = work(input.clone());
            scope.complete(id(&input), id(&output))
        });
        let CapturedGraph { graph, values } = captured.unwrap();
        Recording {
            operations: graph.operations,
            values,
            names: HashMap::new(),
            input: graph.inputs.first().copied(),
            output: graph.outputs.first().copied(),
        }
    }
}
