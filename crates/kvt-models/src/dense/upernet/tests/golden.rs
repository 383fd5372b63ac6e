//! Both heads against mmsegmentation (`scripts/reference/upernet.py`), in evaluation and in a training step.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients, Int};
use kvt_ops::{PixelAverage, pixel_cross_entropy, resize_bilinear};

use super::*;
use crate::weights::read_as_stored;

#[path = "../../../../tests/all/sketch.rs"]
mod sketch;

/// The gradients of a module's parameters.
struct OfParameters<'a>(&'a Gradients, BTreeMap<u64, Vec<f32>>);

impl ModuleVisitor for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = param.val().grad(self.0) {
            self.1.insert(param.id.val(), values(grad));
        }
    }
}

fn gradients<M: Module>(
    module: &M,
    prefix: &str,
    grads: &Gradients,
) -> impl Iterator<Item = (String, Vec<f32>)> {
    let mut found = OfParameters(grads, BTreeMap::new());
    module.visit(&mut found);
    let of = move |id: ParamId| found.1[&id.val()].clone();
    let parameters = state::parameters(module, prefix).into_iter();
    parameters.map(move |parameter| (parameter.name, of(parameter.id)))
}

/// Compares a tensor, or its sketch, whichever the file has.
fn compare(golden: &StateDict, case: &str, [stored, sketched]: [String; 2], found: &[f32]) {
    let floats = |data: &TensorData| data.try_to_vec::<f32>().unwrap();
    if let Some(expected) = golden.get(&stored).map(floats) {
        assert_close(&format!("{case} {stored}"), found, &expected, 2e-4);
        return;
    }
    let expected = floats(golden.get(&sketched).unwrap());
    for (found, expected_number) in sketch::sketch(found).iter().zip(&expected) {
        let difference = (found - f64::from(*expected_number)).abs();
        let least = 2e-4 * f64::from(expected[0]);
        assert!(
            difference < least,
            "{case} {sketched}: {found} for {expected_number}"
        );
    }
}

fn compare_with_mmsegmentation(case: &str, device: &Device) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dense");
    let golden = read_as_stored(&folder.join(format!("upernet_{case}.safetensors"))).unwrap();
    let map = |name: &str| Tensor::<4>::from_data(golden.get(name).unwrap().clone(), device);
    let weights = golden
        .iter()
        .filter_map(|(name, data)| Some((name.strip_prefix("weights.")?.to_owned(), data.clone())));
    let weights: StateDict = weights.collect();
    let config = UperNetConfig {
        dropout: 0.0,
        ..config()
    };
    let init = Init::new(device, Key::new(1));
    let decode = UperHead::new(&init, &MAPS, &config);
    let (decode, rows) = state::load(decode, "decode_head.", &weights, Outcome::Missing).unwrap();
    let auxiliary = FcnHead::new(&init, MAPS[2], &config);
    let (auxiliary, other_rows) =
        state::load(auxiliary, "auxiliary_head.", &weights, Outcome::Missing).unwrap();
    let all = || rows.iter().chain(&other_rows);
    assert!(all().all(|row| row.outcome == Outcome::Matched), "{rows:?}");
    // All that the file has, but for the counters.
    assert_eq!(all().count() + 13, weights.len());

    let labels = golden.get("labels").unwrap().clone();
    let labels = Tensor::<3, Int>::from_data(labels, device);
    let [_, height, width] = labels.dims();
    for (phase, prefix) in [(Phase::Eval, ""), (Phase::Train(Key::new(1)), "train.")] {
        let names = |kind: &str, name: &str| {
            [kind.to_owned(), kind.replace("grad", "grad_sketch")]
                .map(|kind| format!("{prefix}{kind}{name}"))
        };
        let case = format!("{device:?} {case}");
        let maps: Vec<Tensor<4>> = (0..4)
            .map(|at| map(&format!("maps.{at}")).require_grad())
            .collect();
        let logits = decode.forward(&maps, Precision::F32, phase);
        let aux_logits = auxiliary.forward(maps[2].clone(), Precision::F32, phase);
        compare(&golden, &case, names("", "logits"), &values(logits.clone()));
        compare(
            &golden,
            &case,
            names("", "aux_logits"),
            &values(aux_logits.clone()),
        );
        let [main, aux] = [logits, aux_logits].map(|logits| {
            let logits = resize_bilinear(logits, [height, width]);
            pixel_cross_entropy(logits, labels.clone(), 255, PixelAverage::All)
        });
        let loss = main.clone() + aux.clone() * 0.4;
        let losses: Vec<f32> = [main, aux, loss.clone()]
            .into_iter()
            .flat_map(values)
            .collect();
        compare(&golden, &case, names("", "losses"), &losses);
        let grads = loss.backward();
        for (at, map) in maps.iter().enumerate() {
            let grad = values(map.grad(&grads).unwrap());
            compare(&golden, &case, names("grad.", &format!("maps.{at}")), &grad);
        }
        let of_decode = gradients(&decode, "decode_head.", &grads);
        for (name, grad) in of_decode.chain(gradients(&auxiliary, "auxiliary_head.", &grads)) {
            compare(&golden, &case, names("grad.", &name), &grad);
        }
    }
    let after = state::state_dict(&decode, "decode_head.")
        .unwrap()
        .into_iter();
    let after = after.chain(state::state_dict(&auxiliary, "auxiliary_head.").unwrap());
    let mut running = 0;
    for (name, data) in after.filter(|(name, _)| name.contains(".running_")) {
        let stored = format!("train.running.{name}");
        let expected: Vec<f32> = golden.get(&stored).unwrap().try_to_vec().unwrap();
        assert_close(&stored, &data.try_to_vec::<f32>().unwrap(), &expected, 1e-5);
        running += 1;
    }
    assert_eq!(running, 2 * 13);
}

#[test]
fn heads_are_mmsegmentations() {
    for case in ["even", "odd"] {
        compare_with_mmsegmentation(case, &Device::flex().autodiff());
    }
}

/// A software driver takes six minutes; the operations are tested on it in `kvt-ops`.
#[test]
fn heads_are_the_same_on_a_gpu() {
    if !kvt_testing::asks_for("upernet") {
        return;
    }
    for (_, device) in devices().into_iter().skip(1) {
        compare_with_mmsegmentation("odd", &device.autodiff());
    }
}
