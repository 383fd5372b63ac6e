#![expect(clippy::unwrap_used, reason = "tests")]

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};

use super::*;

/// A network without low-rank adaptation.
#[derive(Module, Debug)]
struct Plain {
    weight: Param<Tensor<1>>,
}

impl Network for Plain {
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
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

#[test]
fn a_network_without_factors_takes_none() {
    let weight = Tensor::<1>::from_floats([1.0], &Device::flex());
    let plain = Plain {
        weight: Param::from_tensor(weight),
    };
    let mut factors = StateDict::default();
    let none = [StateDict::default(), StateDict::default()];
    let plain = plain.with_apart(&none).unwrap();
    factors.insert("fc.lora_A.weight", TensorData::new(vec![1.0_f32], [1, 1]));
    let error = plain.with_apart(&[factors, StateDict::default()]);
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "there is `fc.lora_A.weight`, a factor of low-rank adaptation, but this network takes none"
    );
}
