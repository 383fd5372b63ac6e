//! Forward and gradients against PyTorch running the paper's Algorithm 1, for every file that
//! `scripts/reference/attention.py` wrote.

use std::path::Path;

use burn::tensor::{Bool, Device, Tensor};
use kvt_attention::{Implementation, Neighbors, Score, Selection, SoftmaxAttention, attend};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::compare::bools;
use crate::devices::{assert_close, devices_of, tensor, values};

struct Case {
    name: String,
    bytes: Vec<u8>,
    config: Value,
}

impl Case {
    fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut cases: Vec<Self> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
            .map(|path| {
                let bytes = std::fs::read(&path).unwrap();
                let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
                let config = &metadata.metadata().as_ref().unwrap()["config"];
                Self {
                    name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                    config: serde_json::from_str(config).unwrap(),
                    bytes,
                }
            })
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    }

    fn floats(&self, name: &str) -> Option<(Vec<f32>, [usize; 4])> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor(name).ok()?;
        let data = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        Some((data, view.shape().try_into().unwrap()))
    }

    fn tensor(&self, name: &str, device: &Device) -> Option<Tensor<4>> {
        self.floats(name)
            .map(|(data, shape)| tensor(&data, shape, device))
    }

    fn mask(&self, device: &Device) -> Option<Tensor<4, Bool>> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor("mask").ok()?;
        let data: Vec<bool> = view.data().iter().map(|&b| b != 0).collect();
        Some(bools(&data, view.shape().try_into().unwrap(), device))
    }

    fn attention(&self, implementation: Implementation) -> SoftmaxAttention {
        let config = &self.config;
        let neighbors = match config["kind"].as_str().unwrap() {
            "dense" => Neighbors::All,
            "knn" => Neighbors::count(config["neighbors"].as_u64().unwrap() as usize).unwrap(),
            other => panic!("{}: kind {other}", self.name),
        };
        SoftmaxAttention {
            neighbors,
            selection: serde_json::from_value(config["selection"].clone()).unwrap(),
            implementation,
            temperature: config["temperature"].as_f64().unwrap(),
        }
    }
}

#[test]
fn forward_and_gradients_match_pytorch() {
    let cases = Case::all();
    assert!(cases.len() >= 12, "only {} golden files", cases.len());
    for case in &cases {
        for implementation in [
            Implementation::Auto,
            Implementation::Fused,
            Implementation::Flash,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            let attention = case.attention(implementation);
            if attention.validate().is_err() {
                // These two only rank by dot product.
                assert!(matches!(
                    implementation,
                    Implementation::Fused | Implementation::Flash
                ));
                assert_eq!(attention.selection, Selection::Euclidean);
                continue;
            }
            for (device_name, device) in devices_of(is_tried(case, implementation)) {
                run(case, &attention, device_name, &device);
            }
        }
    }
}

/// A GPU runs a few files by default, which together have a bias, masks, both ways to rank and dense attention. `Auto` is `Fused` or
/// `Masked`.
fn is_tried(case: &Case, implementation: Implementation) -> bool {
    let few = ["bias_mask", "euclidean_mask", "knn_k5", "cross_dense"];
    let is_one = |name: &&str| case.name == format!("attention_{name}");
    implementation != Implementation::Auto && few.iter().any(is_one)
}

fn run(case: &Case, attention: &SoftmaxAttention, device_name: &str, device: &Device) {
    let device = device.clone().autodiff();
    let label = format!("{} {:?} {device_name}", case.name, attention.implementation);
    let input = |name| case.tensor(name, &device).unwrap().require_grad();
    let (q, k, v) = (input("q"), input("k"), input("v"));
    let bias = case.tensor("bias", &device).map(Tensor::require_grad);
    let score = Score {
        bias: bias.clone(),
        mask: case.mask(&device),
    };
    let scale = case.config["scale"].as_f64().unwrap();
    let out = attend(
        q.clone(),
        k.clone(),
        v.clone(),
        score,
        scale,
        attention,
        None,
    )
    .unwrap();
    let probe = case.tensor("probe", &device).unwrap();
    let grads = (out.clone() * probe).sum().backward();

    let expected = |name: &str| case.floats(name).unwrap().0;
    assert_close(
        &format!("{label} out"),
        &values(out),
        &expected("out"),
        2e-6,
    );
    for (name, x) in [("q", q), ("k", k), ("v", v)]
        .into_iter()
        .chain(bias.map(|b| ("bias", b)))
    {
        let actual = values(x.grad(&grads).unwrap());
        let name = format!("grad_{name}");
        assert_close(&format!("{label} {name}"), &actual, &expected(&name), 1e-5);
    }
}
