//! Files of `scripts/reference/zoo_*.py`: the results of PyTorch for one kind of attention.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use burn::tensor::{Device, Gradients, Tensor};
use kvt_testing::devices::{assert_close, devices, tensor, values};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// Files that run on the GPU in every test run: a software driver takes seconds to compile the kernels of each.
/// `KVT_GPU_CASES=all` runs all files.
const ON_GPU: [&str; 2] = ["linear", "nystrom"];

type Gradient = Box<dyn Fn(&Gradients) -> Option<Vec<f32>>>;

/// One file.
pub(super) struct Golden {
    name: String,
    bytes: Vec<u8>,
    config: Value,
}

/// The inputs on one device.
pub(super) struct Inputs<'a> {
    pub(super) golden: &'a Golden,
    pub(super) device: Device,
    /// `[batch, heads, query, head_dim]`
    pub(super) q: Tensor<4>,
    /// `[batch, heads, key, head_dim]`
    pub(super) k: Tensor<4>,
    /// `[batch, heads, key, value_dim]`
    pub(super) v: Tensor<4>,
}

/// The results of a mechanism on these inputs.
pub(super) struct Outcome {
    out: Tensor<4>,
    learned: Vec<(String, Gradient)>,
}

impl Outcome {
    pub(super) fn new(out: Tensor<4>) -> Self {
        Self {
            out,
            learned: Vec::new(),
        }
    }

    /// Adds a parameter, whose gradient the file has as `grad_<name>`.
    pub(super) fn learned<const D: usize>(mut self, name: &str, parameter: Tensor<D>) -> Self {
        let gradient = move |all: &Gradients| parameter.grad(all).map(values);
        self.learned.push((name.to_owned(), Box::new(gradient)));
        self
    }
}

impl Golden {
    /// The file `tests/golden/zoo/<name>.safetensors`.
    pub(super) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/zoo")
            .join(format!("{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = &metadata.metadata().as_ref().unwrap()["config"];
        Self {
            name: name.to_owned(),
            config: serde_json::from_str(config).unwrap(),
            bytes,
        }
    }

    /// A number of the `config` in the file.
    pub(super) fn setting(&self, key: &str) -> f64 {
        let value = self.config[key].as_f64();
        value.unwrap_or_else(|| panic!("{}: no number `{key}`", self.name))
    }

    /// A tensor of floats.
    pub(super) fn floats<const D: usize>(&self, name: &str) -> (Vec<f32>, [usize; D]) {
        let (bytes, shape) = self.raw(name, Dtype::F32);
        let numbers = bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        (numbers.collect(), shape.try_into().unwrap())
    }

    /// A tensor of whole numbers (int64).
    pub(super) fn indices<const D: usize>(&self, name: &str) -> (Vec<i64>, [usize; D]) {
        let (bytes, shape) = self.raw(name, Dtype::I64);
        let numbers = bytes
            .chunks_exact(8)
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()));
        (numbers.collect(), shape.try_into().unwrap())
    }

    /// A tensor of floats on a device.
    pub(super) fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let (data, shape) = self.floats(name);
        tensor(&data, shape, device)
    }

    /// Runs a mechanism on the inputs and compares the output and the gradients of q, k, v and the parameters with
    /// the file.
    pub(super) fn check(&self, tolerance: f32, run: impl Fn(&Inputs<'_>) -> Outcome) {
        let everywhere = ON_GPU.contains(&self.name.as_str())
            || std::env::var("KVT_GPU_CASES").is_ok_and(|cases| cases == "all");
        let devices = if everywhere {
            devices()
        } else {
            vec![("flex", Device::flex())]
        };
        for (device_name, device) in devices {
            let device = device.autodiff();
            let input = |name| self.tensor::<4>(name, &device).require_grad();
            let inputs = Inputs {
                golden: self,
                q: input("q"),
                k: input("k"),
                v: input("v"),
                device: device.clone(),
            };
            let Outcome { out, learned } = run(&inputs);
            let probe = self.tensor("probe", &device);
            let gradients = (out.clone() * probe).sum().backward();
            let compare = |name: &str, actual: &[f32]| {
                let label = format!("{} {name} {device_name}", self.name);
                assert_close(&label, actual, &self.values(name), tolerance);
            };
            compare("out", &values(out));
            let Inputs { q, k, v, .. } = inputs;
            for (name, input) in [("grad_q", q), ("grad_k", k), ("grad_v", v)] {
                // Inputs that do not affect the output have no gradient here, and zeros in the file.
                let gradient = input.grad(&gradients).map(values);
                let zeros = || vec![0.0; self.values(name).len()];
                compare(name, &gradient.unwrap_or_else(zeros));
            }
            let names: Vec<_> = learned.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, self.learned_names(), "{}", self.name);
            for (name, gradient) in &learned {
                let gradient = gradient(&gradients);
                let gradient = gradient.unwrap_or_else(|| panic!("{name} has no gradient"));
                compare(&format!("grad_{name}"), &gradient);
            }
        }
    }

    /// The parameters whose gradients the file has, in the order of the script.
    fn learned_names(&self) -> Vec<&str> {
        let names = self.config["learned"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap()).collect()
    }

    fn values(&self, name: &str) -> Vec<f32> {
        let (bytes, _) = self.raw(name, Dtype::F32);
        let numbers = bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        numbers.collect()
    }

    fn raw(&self, name: &str, dtype: Dtype) -> (Vec<u8>, Vec<usize>) {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file
            .tensor(name)
            .unwrap_or_else(|error| panic!("{} `{name}`: {error}", self.name));
        assert_eq!(view.dtype(), dtype, "{} `{name}`", self.name);
        (view.data().to_vec(), view.shape().to_vec())
    }
}
