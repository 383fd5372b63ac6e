#![expect(clippy::unwrap_used, reason = "tests")]

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, TensorData};
use kvt_models::weights::{StateDict, WeightsError};
use kvt_models::{Lora, ModelConfig, ModelOverrides, Parameter};
use kvt_ops::Key;
use safetensors::SafeTensors;

use super::*;

/// The weights that `scripts/reference/optim.py` clips. The linear layer is square, so that only its type distinguishes rows from columns.
#[derive(Module, Debug)]
struct Parts {
    fc: Linear,
    conv: Param<Tensor<4>>,
    token: Param<Tensor<3>>,
}

const SHAPES: [(&str, &[usize]); 4] = [
    ("fc.weight", &[4, 4]),
    ("fc.bias", &[4]),
    ("conv", &[3, 2, 2, 2]),
    ("token", &[1, 1, 3]),
];

struct File(Vec<u8>);

impl File {
    fn data(&self, kind: &str, name: &str) -> TensorData {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let bytes = file.tensor(&format!("clip.{kind}")).unwrap().data();
        let (numbers, _) = bytes.as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (_, shape) = SHAPES.iter().find(|(known, _)| *known == name).unwrap();
        TensorData::new(numbers, shape.to_vec())
    }

    /// A module with the file's weights, or with its gradients.
    fn parts(&self, kind: &str, device: &Device) -> Parts {
        let device = device.clone().autodiff();
        let data = |name: &str| self.data(&format!("{name}.{kind}"), name);
        // PyTorch's layout of a linear layer is the transpose of Burn's.
        let weight = Tensor::<2>::from_data(data("fc.weight"), &device).transpose();
        Parts {
            fc: Linear {
                weight: Param::from_tensor(weight.detach()),
                bias: Some(Param::from_tensor(Tensor::from_data(
                    data("fc.bias"),
                    &device,
                ))),
            },
            conv: Param::from_tensor(Tensor::from_data(data("conv"), &device)),
            token: Param::from_tensor(Tensor::from_data(data("token"), &device)),
        }
    }
}

impl Parts {
    fn gradients(&self, gradients: &Self) -> Gradients {
        let bias = |parts: &Self| parts.fc.bias.as_ref().unwrap().val();
        let loss = (self.fc.weight.val() * gradients.fc.weight.val()).sum()
            + (bias(self) * bias(gradients)).sum()
            + (self.conv.val() * gradients.conv.val()).sum()
            + (self.token.val() * gradients.token.val()).sum();
        Gradients::take(loss.backward(), self)
    }

    fn ids(&self) -> [ParamId; 4] {
        let bias = self.fc.bias.as_ref().unwrap();
        [self.fc.weight.id, bias.id, self.conv.id, self.token.id]
    }
}

impl Network for Parts {
    fn parameters(&self) -> Vec<Parameter> {
        let named = SHAPES.iter().zip(self.ids());
        let parameters = named.map(|((name, shape), id)| Parameter {
            name: (*name).to_owned(),
            id,
            shape: shape.to_vec(),
        });
        parameters.collect()
    }

    fn decays(&self, _: &Parameter) -> bool {
        true
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        unreachable!("nothing is saved here")
    }

    fn load_state_dict(self, _: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        unreachable!("nothing is loaded here")
    }
}

/// The same parts, one of which is a head.
#[derive(Module, Debug)]
struct Headed {
    parts: Parts,
}

impl Network for Headed {
    fn parameters(&self) -> Vec<Parameter> {
        self.parts.parameters()
    }

    fn decays(&self, _: &Parameter) -> bool {
        true
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        usize::from(parameter.name.starts_with("fc."))
    }

    fn layers(&self) -> usize {
        2
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        unreachable!("nothing is saved here")
    }

    fn load_state_dict(self, _: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        unreachable!("nothing is loaded here")
    }
}

fn file() -> File {
    File(include_bytes!("../../../tests/golden/optim.safetensors").to_vec())
}

fn transposed(data: TensorData) -> TensorData {
    let data = Tensor::<2>::from_data(data, &Device::flex());
    data.transpose().into_data()
}

#[track_caller]
fn assert_clipped(mut clipped: Gradients, id: ParamId, expected: &TensorData, what: &str) {
    let (found, scale) = clipped.remove(id).unwrap();
    assert_eq!(scale, 1.0, "{what}");
    let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
    let expected: Vec<f32> = expected.try_to_vec().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < 1e-6, "{what}: {found} is not {expected}");
    }
}

#[test]
fn each_way_of_clipping_is_the_originals() {
    let file = file();
    for (device, on) in kvt_testing::devices::devices() {
        let parts = file.parts("weight", &on);
        let gradients = parts.gradients(&file.parts("grad", &on));
        for (kind, clip) in [
            ("value", Clip::Value(0.4)),
            ("parameter", Clip::Parameter(1.5)),
            ("agc", Clip::Adaptive(0.2)),
        ] {
            let (clipped, _) = clip.apply(gradients.clone(), &parts);
            for ((name, _), id) in SHAPES.iter().zip(parts.ids()) {
                let mut expected = file.data(&format!("{kind}.{name}"), name);
                if *name == "fc.weight" {
                    expected = transposed(expected);
                }
                let what = format!("{device}, {kind}, {name}");
                assert_clipped(clipped.clone(), id, &expected, &what);
            }
        }
    }
}

#[test]
fn adaptive_clipping_leaves_the_head_alone() {
    let file = file();
    let on = Device::flex();
    let parts = file.parts("weight", &on);
    let gradients = parts.gradients(&file.parts("grad", &on));
    let ids = parts.ids();
    let (clipped, _) = Clip::Adaptive(0.2).apply(gradients, &Headed { parts });
    let whole = transposed(file.data("fc.weight.grad", "fc.weight"));
    assert_clipped(clipped.clone(), ids[0], &whole, "head");
    let expected = file.data("agc.conv", "conv");
    assert_clipped(clipped, ids[2], &expected, "no head");
}

/// The units of LoRA's factors are the rows of their matrices in PyTorch's layout, as peft names them.
#[test]
fn adaptive_clipping_knows_the_units_of_factors() {
    let on = Device::flex().autodiff();
    let overrides = ModelOverrides {
        img_size: Some(16.into()),
        patch_size: Some(8),
        embed_dim: Some(12.into()),
        depth: Some(1.into()),
        ..ModelOverrides::default()
    };
    let lora = Lora {
        rank: 3,
        alpha: 6.0,
        layers: vec!["attn".to_owned()],
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let model = config.with(&overrides).unwrap().init(&on, Key::new(1));
    let model = model.unwrap().with_lora(&lora, &on, Key::new(2)).unwrap();
    let weights = model.factors().unwrap();
    let parameters = Network::parameters(&model);
    let is_factor = |parameter: &&Parameter| parameter.name.contains(".lora_");
    let factors: Vec<&Parameter> = parameters.iter().filter(is_factor).collect();
    assert_eq!(factors.len(), 4);

    // Each unit's gradient has another size, so that some are clipped and some are not.
    let row = |unit: usize, inputs: usize| -> Vec<f32> {
        let number = |input: usize| (1 + (3 * input + unit) % 5) as f32;
        let scale = [1e-5, 0.05, 2.0][unit % 3];
        (0..inputs).map(|input| scale * number(input)).collect()
    };
    let norm = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
    // Burn's layout has the units as columns.
    let in_columns = |rows: &[Vec<f32>]| -> Vec<f32> {
        let inputs = 0..rows[0].len();
        inputs
            .flat_map(|input| rows.iter().map(move |row| row[input]))
            .collect()
    };
    let (mut given, mut expected) = (Vec::new(), Vec::new());
    for factor in factors {
        let (units, inputs) = (factor.shape[0], factor.shape[1]);
        let weight = weights.get(&format!("base_model.model.{}", factor.name));
        let weight: Vec<f32> = weight.unwrap().try_to_vec().unwrap();
        let rows: Vec<Vec<f32>> = (0..units).map(|unit| row(unit, inputs)).collect();
        let clipped = rows.iter().zip(weight.chunks(inputs)).map(|(row, weight)| {
            let most = 0.2 * norm(weight).max(1e-3);
            let scale = (most / norm(row)).min(1.0);
            row.iter().map(|x| scale * x).collect::<Vec<f32>>()
        });
        let clipped: Vec<Vec<f32>> = clipped.collect();
        assert_ne!(clipped, rows, "{}", factor.name);
        let gradient = Tensor::from_floats(in_columns(&rows).as_slice(), &Device::flex());
        given.push((factor.id, gradient));
        let values = TensorData::new(in_columns(&clipped), [units * inputs]);
        expected.push((factor.id, values, factor.name.as_str()));
    }
    let (clipped, _) = Clip::Adaptive(0.2).apply(Gradients::of_tensors(given), &model);
    for (id, expected, name) in expected {
        assert_clipped(clipped.clone(), id, &expected, name);
    }
}

#[test]
fn the_global_norm_is_a_factor_for_the_optimizer() {
    let file = file();
    let on = Device::flex();
    let parts = file.parts("weight", &on);
    let gradients = parts.gradients(&file.parts("grad", &on));
    let id = parts.conv.id;
    let scale = |clip: Clip| {
        let (mut clipped, max) = clip.apply(gradients.clone(), &parts);
        if let Some(max) = max {
            clipped = clipped.clip_norm(8.0, max);
        }
        clipped.remove(id).unwrap().1
    };
    assert!((scale(Clip::Norm(2.0)) - 0.25).abs() < 1e-6);
    assert_eq!([scale(Clip::Norm(9.0)), scale(Clip::Off)], [1.0, 1.0]);
}
