//! Low-rank adaptation (Hu et al. 2021, [*LoRA*](https://arxiv.org/abs/2106.09685)): the weight of a linear layer stays, and the
//! product of two small matrices that are trained is added to it, `W + alpha / rank A B`.
//!
//! Burn attaches the factors to the parameter that holds W ([`LoraAdapter`]): it then gives the sum to whoever asks for its
//! value, so that no layer knows of them. Burn's own way to attach them draws A from its generator, at another width, and freezes
//! the head; here A is drawn from a key, as peft draws it, and the head is trained.
//!
//! Outside of the model, the weights are those of the sum, under timm's names ([`StateDict::from_model`]). What training goes on
//! from is [`Model::factors`], under the names of peft, and [`Model::adapted`], the weights without them.

use std::collections::HashMap;

use burn::module::{LoraAdapter, Module, Param, ParamId, Reparameterizer};
use burn::tensor::{Device, Tensor, TensorData};
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, bridge, burn_pack};
use kvt_attention::{Law, ParamInit as _};
use kvt_ops::Key;

use crate::error::ModelError;
use crate::layers::Init;
use crate::model::{Model, Parameter, is_of_mixer, trained};
use crate::network::Network;
use crate::weights::{StateDict, WeightsError, on_host, put};

/// Which layers are adapted, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// Columns of A and rows of B.
    pub rank: usize,
    /// The product is multiplied by `alpha / rank`.
    pub alpha: f64,
    /// Parts of the names of linear layers, whole between dots: `attn`, `mlp.fc1`, `blocks.11`.
    pub layers: Vec<String>,
}

/// A factor: where it is in the model, and what it is called outside.
struct Factor {
    /// The path of modules to it.
    path: String,
    /// peft's name.
    name: String,
    /// timm's name of the weight that it adapts.
    weight: String,
    tensor: burn_pack::Tensor,
}

impl Model {
    /// This model with factors beside the weights of some of its linear layers. They, and the head, are what is trained; all else
    /// keeps its values, apart from running statistics of batch norms. A is drawn from the key as by peft, uniformly within
    /// `1 / sqrt(inputs)` (Kaiming, with `a = sqrt(5)`), and B is 0, so that the output is at first as before.
    ///
    /// The head and mechanisms of attention are not adapted, nor are convolutions.
    ///
    /// # Errors
    ///
    /// [`ModelError::LoraLayer`] if an entry names no linear layer, [`ModelError::LoraRank`] if the rank is 0 or above a dimension
    /// of a weight.
    pub fn with_lora(mut self, lora: &Lora, device: &Device, key: Key) -> Result<Self, ModelError> {
        let layers = self.linears();
        for entry in &lora.layers {
            if !layers.iter().any(|(layer, _)| has_part(layer, entry)) {
                return Err(ModelError::LoraLayer {
                    entry: entry.clone(),
                    layers: kinds(&layers),
                });
            }
        }
        let is_chosen = |layer: &str| lora.layers.iter().any(|entry| has_part(layer, entry));
        let init = Init::new(device, key);
        let mut adapters = HashMap::new();
        for (layer, weight) in layers.iter().filter(|(layer, _)| is_chosen(layer)) {
            // PyTorch's layout.
            let (outputs, inputs) = (weight.shape[0], weight.shape[1]);
            if lora.rank == 0 || lora.rank > outputs.min(inputs) {
                return Err(ModelError::LoraRank {
                    rank: lora.rank,
                    layer: layer.clone(),
                    shape: [inputs, outputs],
                });
            }
            let bound = 1.0 / (inputs as f32).sqrt();
            let init = init.child(layer);
            let adapter = LoraAdapter {
                a: init.param("lora_A", [inputs, lora.rank], Law::Uniform { bound }),
                b: init.param("lora_B", [lora.rank, outputs], Law::Constant(0.0)),
                scale: lora.alpha / lora.rank as f64,
            };
            adapters.insert(weight.id, adapter);
        }
        let frozen = self.of_backbone().map(|parameter| parameter.id);
        self.adapted_around = Some(frozen.collect());
        self.backbone = self.backbone.apply_reparameterization(Attach(adapters));
        Ok(self)
    }

    /// Whether this model is one [with LoRA](Self::with_lora).
    pub(crate) fn is_adapted(&self) -> bool {
        self.adapted_around.is_some()
    }

    /// The factors of a model [with LoRA](Self::with_lora), as peft names and lays them out,
    /// `base_model.model.<layer>.lora_A.weight`, `[rank, inputs]`, and `lora_B.weight`, `[outputs, rank]`; of another model none.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    pub fn factors(&self) -> Result<StateDict, WeightsError> {
        let read = |factor: Factor| {
            let (_, data) = on_host(factor.tensor)?;
            let turned = transposed(&factor.name, &data)?;
            Ok((factor.name, turned))
        };
        self.all_factors().into_iter().map(read).collect()
    }

    /// The weights to which the [factors](Self::factors) are added, without them, under timm's names.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    pub fn adapted(&self) -> Result<StateDict, WeightsError> {
        let mut factors = self.all_factors();
        factors.dedup_by(|b, a| b.weight == a.weight);
        let mut tensors = self.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true);
        for tensor in &mut tensors {
            tensor.name = self.name(&tensor.name);
        }
        tensors.retain(|tensor| factors.iter().any(|factor| factor.weight == tensor.name));
        tensors.into_iter().map(on_host).collect()
    }

    /// Gives this model, [with LoRA](Self::with_lora), the state that [`factors`](Self::factors) and [`adapted`](Self::adapted) gave.
    ///
    /// # Errors
    ///
    /// [`WeightsError::Factor`] if something is missing or has another shape.
    pub fn set_factors(
        &mut self,
        factors: &StateDict,
        adapted: &StateDict,
    ) -> Result<(), WeightsError> {
        let shapes: HashMap<String, Vec<usize>> = self
            .state()
            .into_iter()
            .map(|parameter| (parameter.name, parameter.shape))
            .collect();
        let (mut small, mut whole) = (Vec::new(), Vec::new());
        for factor in self.all_factors() {
            let mut shape = factor.tensor.shape.to_vec();
            shape.reverse();
            let data = entry(factors, &factor.name, &shape)?;
            let data = transposed(&factor.name, data)?;
            small.push(bridge::from_data(data, factor.path, None));
            let shape = shapes.get(&factor.weight).map_or(&[][..], Vec::as_slice);
            let data = entry(adapted, &factor.weight, shape)?.clone();
            whole.push(bridge::from_data(data, self.path(&factor.weight), None));
        }
        put(self, small, None)?;
        put(self, whole, Some(Box::new(PyTorchToBurnAdapter)))
    }

    /// The factors as parameters, in the order of the modules.
    pub(crate) fn factor_parameters(&self) -> impl Iterator<Item = Parameter> {
        self.all_factors().into_iter().filter_map(|factor| {
            let mut shape = factor.tensor.shape.to_vec();
            shape.reverse();
            Some(Parameter {
                id: ParamId::from(factor.tensor.param_id?),
                // Without peft's prefix, so that its layer is found.
                name: factor.name.strip_prefix(PEFT)?.to_owned(),
                shape,
            })
        })
    }

    /// The factors, of each layer A, then B.
    fn all_factors(&self) -> Vec<Factor> {
        if !self.is_adapted() {
            return Vec::new();
        }
        let tensors = self.collect(None, None, true).into_iter();
        let factors = tensors.filter_map(|tensor| {
            let path = tensor.name.clone();
            let (of, factor) = path.strip_suffix(".lora.a").map_or_else(
                || path.strip_suffix(".lora.b").map(|of| (of, "lora_B")),
                |of| Some((of, "lora_A")),
            )?;
            let weight = self.name(of);
            let layer = weight.strip_suffix(WEIGHT)?;
            Some(Factor {
                name: format!("{PEFT}{layer}.{factor}{WEIGHT}"),
                path,
                weight,
                tensor,
            })
        });
        factors.collect()
    }

    /// The linear layers that can be adapted, by name, and their weights.
    fn linears(&self) -> Vec<(String, Parameter)> {
        let layers = self.of_backbone().filter_map(|weight| {
            let layer = weight.name.strip_suffix(WEIGHT)?.to_owned();
            (weight.shape.len() == 2 && !is_of_mixer(&layer)).then_some((layer, weight))
        });
        layers.collect()
    }

    /// The trained parameters of the backbone.
    fn of_backbone(&self) -> impl Iterator<Item = Parameter> {
        let trained = trained(&self.backbone);
        let parameters = self.parameters().into_iter();
        parameters.filter(move |parameter| trained.contains(&parameter.id))
    }
}

/// How peft's names begin.
const PEFT: &str = "base_model.model.";
const WEIGHT: &str = ".weight";

/// Freezes what it meets, and attaches factors to weights.
struct Attach(HashMap<ParamId, LoraAdapter>);

impl Reparameterizer for Attach {
    type Reparam = LoraAdapter;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LoraAdapter>) {
        let adapter = self.0.remove(&param.id);
        (param.set_require_grad(false), adapter)
    }
}

/// Whether a part of a name, whole between dots, is this one.
fn has_part(layer: &str, part: &str) -> bool {
    !part.is_empty() && format!(".{layer}.").contains(&format!(".{part}."))
}

/// The last two modules in the names of layers, each pair once: `attn.qkv`, `attn.proj`.
fn kinds(layers: &[(String, Parameter)]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for (layer, _) in layers {
        let mut dots = layer.rmatch_indices('.');
        let kind = dots
            .nth(1)
            .map_or(layer.as_str(), |(dot, _)| &layer[dot + 1..]);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        return "this model has none outside of its head".to_owned();
    }
    format!("there are `{}`", kinds.join("`, `"))
}

/// The entry of a name, of a shape.
fn entry<'a>(
    state: &'a StateDict,
    name: &str,
    shape: &[usize],
) -> Result<&'a TensorData, WeightsError> {
    let found = state.get(name);
    found
        .filter(|data| data.shape().as_slice() == shape)
        .ok_or_else(|| WeightsError::Factor {
            name: name.to_owned(),
            expected: shape.to_vec(),
        })
}

/// A matrix with its rows as columns, in 32 bits.
fn transposed(name: &str, data: &TensorData) -> Result<TensorData, WeightsError> {
    let values = data.as_slice::<f32>();
    let values = values.map_err(|error| WeightsError::Transfer {
        name: name.to_owned(),
        reason: error.to_string(),
    })?;
    let (rows, columns) = (data.shape()[0], data.shape()[1]);
    let of_column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    let turned: Vec<f32> = (0..columns).flat_map(of_column).collect();
    Ok(TensorData::new(turned, [columns, rows]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names_are_whole_between_dots() {
        let layer = "blocks.1.attn.qkv";
        for part in ["attn", "qkv", "attn.qkv", "blocks.1", layer] {
            assert!(has_part(layer, part), "{part}");
        }
        for part in [
            "",
            "q",
            "kv",
            "blocks.1.qkv",
            "blocks.11",
            "qkv.weight",
            ".",
        ] {
            assert!(!has_part(layer, part), "{part}");
        }
    }

    #[test]
    fn rows_become_columns() {
        let data = TensorData::new((0u8..6).map(f32::from).collect(), [2, 3]);
        let turned = transposed("x", &data).map_err(|error| error.to_string());
        let expected = TensorData::new(vec![0.0f32, 3.0, 1.0, 4.0, 2.0, 5.0], [3, 2]);
        assert_eq!(turned, Ok(expected));
    }
}
