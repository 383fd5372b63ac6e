//! The weights of a part of a network, under a prefix.

use burn::module::Module;
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, burn_pack};

use crate::model::{Parameter, trained};
use crate::weights::{LoadRow, Outcome, StateDict, WeightsError, deferred, on_host, put, widened};

/// The tensors of a module in PyTorch's layout, not yet read from the device.
fn tensors<M: Module>(module: &M) -> Vec<burn_pack::Tensor> {
    module.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true)
}

/// Every trainable parameter of a module, in the order of its modules.
pub fn parameters<M: Module>(module: &M, prefix: &str) -> Vec<Parameter> {
    let trained = trained(module);
    let all = tensors(module).into_iter().filter_map(Parameter::of);
    all.filter(|parameter| trained.contains(&parameter.id))
        .map(|parameter| parameter.within(prefix))
        .collect()
}

/// The parameters of a module, and what is saved with them but not trained.
///
/// # Errors
///
/// If the device cannot be read.
pub fn state_dict<M: Module>(module: &M, prefix: &str) -> Result<StateDict, WeightsError> {
    let named = tensors(module).into_iter().map(|tensor| {
        let (name, data) = on_host(tensor)?;
        Ok((format!("{prefix}{name}"), data))
    });
    named.collect()
}

/// A module with the weights of its names, and the outcome for each of them: `without` where there is no weight. Only those that
/// fit are loaded; half types are widened.
///
/// # Errors
///
/// If one that fits is not floating point, or the device fails.
pub fn load<M: Module>(
    mut module: M,
    prefix: &str,
    state: &StateDict,
    without: Outcome,
) -> Result<(M, Vec<LoadRow>), WeightsError> {
    let (mut rows, mut fitting) = (Vec::new(), Vec::new());
    for tensor in tensors(&module) {
        let (name, expected) = (format!("{prefix}{}", tensor.name), tensor.shape.to_vec());
        let data = state.shared(&name);
        let found = data.map(|data| data.shape().to_vec());
        let outcome = match &found {
            None => without,
            Some(found) if *found != expected => Outcome::Mismatched,
            Some(_) => Outcome::Matched,
        };
        if let Some(data) = data.filter(|_| outcome == Outcome::Matched) {
            fitting.push(deferred(widened(&name, data)?, tensor.name));
        }
        rows.push(LoadRow {
            name,
            expected: Some(expected),
            found,
            outcome,
        });
    }
    put(&mut module, fitting, Some(Box::new(PyTorchToBurnAdapter)))?;
    Ok((module, rows))
}
