//! An optimizer's state, by name.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Parameter;

use super::rule::{Buffers, MOMENTS};
use super::{Optimizer, State};

/// An optimizer state that does not match the network.
#[derive(Debug, thiserror::Error)]
pub enum OptimizerError {
    /// A tensor of the state is missing or has another size.
    #[error(
        "the optimizer state has no `{name}` of {expected} values: it belongs to another model"
    )]
    Missing {
        /// Name of the tensor.
        name: String,
        /// Its expected number of values.
        expected: usize,
    },
    /// The saved number of a parameter's updates is invalid.
    #[error("`{0}` of the optimizer state is not one count of updates")]
    Count(String),
}

impl Optimizer {
    /// The state by name, such as `exp_avg.<parameter>` and `exp_avg_sq.<parameter>` for AdamW, and the number of
    /// updates. A parameter that was excluded from some of them has its own number, `step.<parameter>`.
    pub fn state(&self) -> (BTreeMap<String, TensorData>, u32) {
        let mut saved = BTreeMap::new();
        for Parameter { name, id, .. } in &self.parameters {
            let state = self.states.get(id);
            let step = state.map_or(0, |state| state.step);
            if step != self.updates {
                let step = TensorData::new(vec![i64::from(step)], [1]);
                saved.insert(format!("step.{name}"), step);
            }
            for (buffer, values) in state.into_iter().flat_map(|state| state.buffers.iter()) {
                saved.insert(format!("{buffer}.{name}"), values.to_data());
            }
        }
        (saved, self.updates)
    }

    /// Restores the result of [`Self::state`], on the network's device.
    ///
    /// # Errors
    /// If a part of the state is missing or has another size.
    pub fn load_state(
        &mut self,
        mut saved: BTreeMap<String, TensorData>,
        updates: u32,
        network: &impl Module,
    ) -> Result<(), OptimizerError> {
        self.updates = updates;
        self.begin_anew();
        self.states.clear();
        let Some(device) = network.devices().into_iter().next().map(Device::inner) else {
            return Ok(());
        };
        for Parameter { name, id, shape } in &self.parameters {
            let own = format!("step.{name}");
            let step = match saved.remove(&own) {
                Some(step) => count(&step).ok_or(OptimizerError::Count(own))?,
                None => updates,
            };
            if step == 0 {
                continue;
            }
            let expected = shape.iter().product();
            let mut buffers = Buffers::default();
            let group = self.groups.get(id);
            let rule = group.and_then(|group| group.rule);
            let names = rule.map_or(&MOMENTS[..], |rule| rule.buffers);
            for &buffer in names {
                let name = format!("{buffer}.{name}");
                match saved.remove(&name) {
                    Some(data) if data.num_elements() == expected => {
                        buffers.put(buffer, Tensor::from_data(data, &device));
                    }
                    _ => return Err(OptimizerError::Missing { name, expected }),
                }
            }
            self.states.insert(*id, State { buffers, step });
        }
        Ok(())
    }
}

/// The only integer of a tensor.
fn count(data: &TensorData) -> Option<u32> {
    match data.as_slice::<i64>() {
        Ok(&[count]) => u32::try_from(count).ok(),
        _ => None,
    }
}
