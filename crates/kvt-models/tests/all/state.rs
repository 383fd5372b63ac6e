//! Which parts of a model are trained, and which are only saved.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelOverrides, Network};
use kvt_ops::Key;

use crate::small::configs;

/// Freezes tokens and positions, the only parameters of rank 3.
struct Freeze;

impl ModuleMapper for Freeze {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D == 3 {
            param.set_require_grad(false)
        } else {
            param
        }
    }
}

fn names(model: &Model) -> Vec<String> {
    model.parameters().into_iter().map(|p| p.name).collect()
}

/// An optimizer does not see a frozen parameter, which is still a weight; on every device, and after switching
/// between training and evaluation.
#[test]
fn frozen_parameters_are_saved_but_not_trained() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let config = configs(&ModelOverrides::default()).remove(0);
        let model = config.init(&device, Key::new(1)).unwrap();
        let all = names(&model);
        let saved = StateDict::from_model(&model).unwrap();
        assert_eq!(all.len(), saved.len());
        let frozen = model.map(&mut Freeze);
        let expected: Vec<_> = all
            .iter()
            .filter(|name| !["cls_token", "pos_embed"].contains(&name.as_str()))
            .cloned()
            .collect();
        assert_eq!(expected.len() + 2, all.len());
        assert_eq!(names(&frozen), expected);
        assert_eq!(names(&frozen.valid()), expected);
        assert_eq!(names(&frozen.valid().train()), expected);
        assert_eq!(StateDict::from_model(&frozen).unwrap(), saved);
    }
}
