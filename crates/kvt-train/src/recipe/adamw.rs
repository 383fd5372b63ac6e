//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of
//! operations, over the parameters of a model by name.
//!
//! Its state is plain: two flat tensors per parameter, saved under the parameter's timm name. So a
//! checkpoint does not depend on internal ids, and loading puts the state where the model is.

use std::collections::{BTreeMap, HashMap, HashSet};

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Tensor, TensorData};
use kvt_models::{Model, Parameter};
use kvt_ops::{AdamWStep, adamw};

use super::Gradients;
use super::gradients::flat;

/// The constants of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWConfig {
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay, multiplied by the learning rate.
    pub weight_decay: f64,
}

/// An optimizer state that does not belong to the model.
#[derive(Debug, thiserror::Error)]
pub enum AdamWError {
    /// A moment is missing or has another size.
    #[error(
        "the optimizer state has no `{name}` of {expected} values: it belongs to another model"
    )]
    Moment {
        /// Name of the moment tensor.
        name: String,
        /// Its expected number of values.
        expected: usize,
    },
}

/// AdamW with its moments.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    parameters: Vec<Parameter>,
    decayed: HashSet<ParamId>,
    moments: HashMap<ParamId, Moments>,
    updates: u32,
}

#[derive(Clone, Debug)]
struct Moments {
    exp_avg: Tensor<1>,
    exp_avg_sq: Tensor<1>,
}

impl AdamW {
    /// An optimizer for a model, without any moments yet.
    ///
    /// As in timm, neither tensors of rank 1 (biases, norms) nor what the model excludes (position
    /// embeddings, class tokens) decay.
    pub fn new(config: AdamWConfig, model: &Model) -> Self {
        let parameters = model.parameters();
        let decayed = parameters
            .iter()
            .filter(|parameter| model.decays(parameter))
            .map(|p| p.id)
            .collect();
        Self {
            config,
            parameters,
            decayed,
            moments: HashMap::new(),
            updates: 0,
        }
    }

    /// One update: the model with new weights.
    pub fn step(&mut self, model: Model, gradients: Gradients, lr: f64) -> Model {
        self.updates += 1;
        let mut update = Update {
            lr,
            optimizer: self,
            gradients,
        };
        model.map(&mut update)
    }

    /// Moments by name (`exp_avg.<parameter>`, `exp_avg_sq.<parameter>`), and the update count.
    pub fn state(&self) -> (BTreeMap<String, TensorData>, u32) {
        let mut state = BTreeMap::new();
        for Parameter { name, id, .. } in &self.parameters {
            if let Some(moments) = self.moments.get(id) {
                state.insert(format!("exp_avg.{name}"), moments.exp_avg.to_data());
                state.insert(format!("exp_avg_sq.{name}"), moments.exp_avg_sq.to_data());
            }
        }
        (state, self.updates)
    }

    /// Puts back what [`Self::state`] gave.
    ///
    /// # Errors
    /// If a moment is missing or has another size.
    pub fn load_state(
        &mut self,
        mut state: BTreeMap<String, TensorData>,
        updates: u32,
        model: &Model,
    ) -> Result<(), AdamWError> {
        self.updates = updates;
        if updates == 0 {
            return Ok(());
        }
        let device = model
            .devices()
            .into_iter()
            .next()
            .map(burn::tensor::Device::inner);
        let Some(device) = device else {
            return Ok(());
        };
        let mut take = |name: String, expected: usize| match state.remove(&name) {
            Some(data) if data.num_elements() == expected => {
                Ok(Tensor::<1>::from_data(data, &device))
            }
            _ => Err(AdamWError::Moment { name, expected }),
        };
        for Parameter { name, id, shape } in &self.parameters {
            let elements = shape.iter().product();
            let exp_avg = take(format!("exp_avg.{name}"), elements)?;
            let exp_avg_sq = take(format!("exp_avg_sq.{name}"), elements)?;
            let moments = Moments {
                exp_avg,
                exp_avg_sq,
            };
            self.moments.insert(*id, moments);
        }
        Ok(())
    }

    fn update<const D: usize>(
        &mut self,
        id: ParamId,
        weight: Tensor<D>,
        (gradient, grad_scale): (Tensor<1>, f64),
        lr: f64,
    ) -> Tensor<D> {
        let AdamWConfig {
            betas,
            eps,
            weight_decay,
        } = self.config;
        let shape = weight.shape();
        let weight = flat(weight);
        let moments = self.moments.remove(&id).unwrap_or_else(|| Moments {
            exp_avg: weight.zeros_like(),
            exp_avg_sq: weight.zeros_like(),
        });
        let weight_scale = if self.decayed.contains(&id) {
            1.0 - lr * weight_decay
        } else {
            1.0
        };
        let updates = f64::from(self.updates);
        let step = AdamWStep {
            grad_scale,
            weight_scale,
            betas,
            eps,
            step_size: lr / (1.0 - betas.0.powf(updates)),
            inv_sqrt_bias_correction2: 1.0 / (1.0 - betas.1.powf(updates)).sqrt(),
        };
        let moments = [moments.exp_avg, moments.exp_avg_sq];
        let (weight, [exp_avg, exp_avg_sq]) = adamw(weight, gradient, moments, step);
        let moments = Moments {
            exp_avg,
            exp_avg_sq,
        };
        self.moments.insert(id, moments);
        weight.reshape(shape)
    }
}

struct Update<'a> {
    lr: f64,
    optimizer: &'a mut AdamW,
    gradients: Gradients,
}

impl ModuleMapper for Update<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove(param.id) else {
            return param;
        };
        let id = param.id;
        param.map(|weight| {
            let trained = weight.is_require_grad();
            let weight = self.optimizer.update(id, weight.inner(), gradient, self.lr);
            weight.autodiff().set_require_grad(trained)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;
    use kvt_models::{ModelConfig, ModelOverrides};
    use kvt_ops::Key;
    use safetensors::SafeTensors;

    use super::*;

    /// A tensor of the golden file, flat.
    fn golden(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
        let bytes = file.tensor(name).unwrap().data();
        bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    /// Ten steps of `torch.optim.AdamW` with decay on one of three tensors.
    #[test]
    fn ten_steps_match_pytorch() {
        let bytes = include_bytes!("../../tests/golden/adamw.safetensors");
        let file = SafeTensors::deserialize(bytes).unwrap();
        let device = Device::flex();
        for (name, decay) in [("matrix", true), ("bias", false), ("cube", false)] {
            let id = ParamId::new();
            let mut optimizer = AdamW {
                config: AdamWConfig {
                    betas: (0.9, 0.999),
                    eps: 1e-8,
                    weight_decay: 0.05,
                },
                parameters: Vec::new(),
                decayed: decay.then_some(id).into_iter().collect(),
                moments: HashMap::new(),
                updates: 0,
            };
            let params = golden(&file, &format!("{name}.params"));
            let grads = golden(&file, &format!("{name}.grads"));
            let size = grads.len() / 10;
            let tensor = |data: &[f32]| Tensor::<1>::from_data(data, &device);
            let mut weight = tensor(&params[..size]);
            for step in 0..10 {
                optimizer.updates += 1;
                let gradient = tensor(&grads[step * size..][..size]);
                weight = optimizer.update(id, weight, (gradient, 1.0), 0.01);
                let actual: Vec<f32> = weight.to_data().try_to_vec().unwrap();
                for (a, e) in actual.iter().zip(&params[(step + 1) * size..][..size]) {
                    assert!((a - e).abs() < 1e-6, "{name}, step {step}: {a} is not {e}");
                }
            }
        }
    }

    #[test]
    fn the_state_of_another_model_is_refused() {
        let overrides = ModelOverrides {
            img_size: Some(16),
            patch_size: Some(8),
            embed_dim: vec![4],
            depth: vec![1],
            num_heads: vec![1],
            num_classes: Some(2),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
        let config = config.with(&overrides).unwrap();
        let model = config.init(&Device::flex(), Key::new(1)).unwrap();
        let mut state = BTreeMap::new();
        for Parameter { name, shape, .. } in model.parameters() {
            let zeros = || TensorData::zeros::<f32, _>([shape.iter().product::<usize>()]);
            state.insert(format!("exp_avg.{name}"), zeros());
            state.insert(format!("exp_avg_sq.{name}"), zeros());
        }
        let load = |state: &BTreeMap<String, TensorData>| {
            let config = AdamWConfig {
                betas: (0.9, 0.999),
                eps: 1e-8,
                weight_decay: 0.05,
            };
            AdamW::new(config, &model).load_state(state.clone(), 1, &model)
        };
        load(&state).unwrap();
        let name = "exp_avg_sq.norm.bias";
        state.insert(name.to_owned(), TensorData::zeros::<f32, _>([5]));
        let error = load(&state).unwrap_err().to_string();
        assert!(
            error.contains("no `exp_avg_sq.norm.bias` of 4 values"),
            "{error}"
        );
        state.remove(name);
        let error = load(&state).unwrap_err().to_string();
        assert!(
            error.contains("no `exp_avg_sq.norm.bias` of 4 values"),
            "{error}"
        );
    }
}
