use burn::tensor::Device;
use kvt_testing::devices::{tensor, values};

use super::*;
use crate::BurnInit;
use crate::mechanisms::golden::{Golden, Outcome};

fn module(projected: bool, kernel_epsilon: f64) -> PerformerRelu {
    let config = PerformerReluConfig {
        projected,
        kernel_epsilon,
        ..PerformerReluConfig::default()
    };
    config.init(&Place::new(0, 8, 1), &BurnInit::new(&Device::flex()))
}

#[test]
fn performer_relu_attention_is_that_of_pytorch() {
    for (name, projected) in [("performer-relu", true), ("performer-relu_entries", false)] {
        let golden = Golden::read(name);
        let module = module(projected, golden.setting("kernel_epsilon"));
        golden.check(1e-5, |inputs| {
            let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
            let omega = projected.then(|| inputs.golden.tensor("omega", &inputs.device));
            Outcome::new(module.attend_by([q, k, v], omega.as_ref()))
        });
    }
}

/// By hand: features of the query are (1.5, 0.5), of the keys (0.5, 0.5) and (2.5, 0.5); weights 1 and 4.
#[test]
fn entries_are_features_where_nothing_is_projected() {
    let device = Device::flex();
    let q = tensor(&[1.0, -3.0], [1, 1, 1, 2], &device);
    let k = tensor(&[-1.0, -1.0, 2.0, 0.0], [1, 1, 2, 2], &device);
    let v = tensor(&[0.0, 5.0], [1, 1, 2, 1], &device);
    let place = Place::new(1, 2, 1);
    let out = module(false, 0.5).attend(q, k, v, place.context(kvt_ops::Phase::Eval));
    assert_eq!(values(out), [4.0]);
}
