//! Training runs of the references, from files of `scripts/reference/`: what both runs start from, and the results.

use std::path::Path;

use burn::tensor::TensorData;
use kvt_models::dense::read_dense;
use kvt_models::weights::{self, StateDict};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::config::load_plan;
use crate::run::{Checkpoints, Event, RunDir, StepRecord, Which};

/// A golden file.
pub(in crate::task) struct Golden(Vec<u8>);

impl Golden {
    pub(in crate::task) fn read(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/dense");
        Self(fs_err::read(format!("{folder}/{name}.safetensors")).unwrap())
    }

    pub(in crate::task) fn metadata(&self, key: &str) -> Value {
        let (_, header) = SafeTensors::read_metadata(&self.0).unwrap();
        serde_json::from_str(&header.metadata().as_ref().unwrap()[key]).unwrap()
    }

    pub(in crate::task) fn bytes(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        tensors.tensor(name).unwrap().data().to_vec()
    }

    pub(in crate::task) fn f32s(&self, name: &str) -> Vec<f64> {
        let bytes = self.bytes(name);
        let (numbers, _) = bytes.as_chunks::<4>();
        let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
        numbers.iter().map(number).collect()
    }

    pub(in crate::task) fn i64s(&self, name: &str) -> Vec<i64> {
        let bytes = self.bytes(name);
        let (numbers, _) = bytes.as_chunks::<8>();
        let number = |bytes: &[u8; 8]| i64::from_le_bytes(*bytes);
        numbers.iter().map(number).collect()
    }

    /// Checks that the updates take so many images one after the other, again and again.
    pub(in crate::task) fn takes_in_turn(&self, images: i64) {
        let order = self.i64s("order");
        assert!((0..).zip(order).all(|(at, image)| image == at % images));
    }

    /// Writes the tensors with a prefix as an ordinary weight file.
    pub(in crate::task) fn write(&self, prefix: &str, file: &Path) {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let weights = tensors.tensors().into_iter().filter_map(|(name, view)| {
            let name = name.strip_prefix(prefix)?.to_owned();
            Some((name, view))
        });
        let bytes = safetensors::serialize(weights, None).unwrap();
        fs_err::write(file, bytes).unwrap();
    }

    /// Compares the numbers of each update: rates, losses by the names of the task's metrics, their sum, norms of gradients.
    pub(in crate::task) fn compare_steps(&self, events: &[Event], losses: &[(&str, &str)]) {
        let steps: Vec<&StepRecord> = events
            .iter()
            .filter_map(|event| match event {
                Event::Step(step) => Some(step),
                _ => None,
            })
            .collect();
        let close = |what: &str, tolerance: f64, found: &dyn Fn(&StepRecord) -> f64| {
            let expected = self.f32s(what);
            assert_eq!(steps.len(), expected.len());
            for (step, expected) in steps.iter().zip(expected) {
                let found = found(step);
                let error = (found - expected).abs() / expected.abs();
                assert!(
                    error < tolerance,
                    "{what} {}: {found} {expected}",
                    step.step
                );
            }
        };
        close("lrs", 1e-6, &|step| step.lr);
        for (what, metric) in losses {
            close(what, 1e-5, &|step| step.metrics.get(metric).unwrap());
        }
        close("losses", 1e-5, &|step| step.loss);
        close("grad_norms", 1e-4, &|step| step.grad_norm);
    }

    /// Compares the weights after the last update of the run in `folder`, under our names; how many tensors they are. Where the
    /// reference in f32 and in f64 differ, gradients are rounding alone.
    pub(in crate::task) fn compare_weights(&self, folder: &Path) -> usize {
        let path = |name: &str| folder.join(name);
        self.write("final.", &path("final.safetensors"));
        let plan = load_plan(&path("golden.toml"), &[]).unwrap();
        let model = plan.model.config(None).unwrap();
        let theirs = weights::read(&path("final.safetensors")).unwrap();
        let drift = self.metadata("drift");
        let drift: StateDict = theirs
            .iter()
            .map(|(name, data)| {
                let shape = data.shape().to_vec();
                let numbers =
                    vec![drift[name].as_f64().unwrap_or(0.0) as f32; shape.iter().product()];
                (name.to_owned(), TensorData::new(numbers, shape))
            })
            .collect();
        let [theirs, drift] = [theirs, drift].map(|state| read_dense(state, &model).unwrap().state);
        let checkpoints = Checkpoints::new(&RunDir::open(&path("run")).unwrap());
        let (checkpoint, _) = checkpoints.load(Which::Last).unwrap();
        let ours = weights::read(&checkpoint.file("model.safetensors")).unwrap();
        let reach = self.f32s("lrs").iter().sum::<f64>() as f32;
        let mut compared = 0;
        for (name, ours) in ours.iter() {
            let numbers = |data: &TensorData| data.try_to_vec::<f32>().unwrap();
            let (theirs, drift) = (theirs.get(name).unwrap(), drift.get(name).unwrap());
            let drift = numbers(drift).first().copied().unwrap_or(0.0);
            let (ours, theirs) = (numbers(ours), numbers(theirs));
            // The softmax does not see what the bias of a key adds to all scores of a query. Its gradient is rounding alone, which
            // AdamW turns into a step of up to the learning rate, in either direction.
            let third = ours.len() / 3;
            let is_of_keys = |i: usize| name.ends_with("qkv.bias") && i / third == 1;
            for (i, (a, b)) in ours.into_iter().zip(theirs).enumerate() {
                let most = if is_of_keys(i) {
                    2.0 * reach
                } else {
                    2e-5 * b.abs().max(1.0) + 10.0 * drift
                };
                assert!((a - b).abs() <= most, "{name} {i}: {a} {b}, at most {most}");
            }
            compared += 1;
        }
        compared
    }
}

/// The sections of a configuration that every run of a reference has, with its folder: run, first weights, model, normalisation,
/// optimizer, length.
pub(in crate::task) fn sections(golden: &Value, folder: &Path) -> String {
    let model = &golden["model"];
    let attention = match &model["attention"]["neighbors"] {
        Value::Null => "kind = \"dense\"".to_owned(),
        neighbors => format!("kind = \"knn\"\nneighbors = {neighbors}"),
    };
    let sections = [
        format!(
            "[run]\ndir = {:?}\n[init]\nweights = {:?}",
            folder.join("run"),
            folder.join("init.safetensors")
        ),
        format!(
            "[model]\nname = \"swin_tiny_patch4_window7_224\"\nimg_size = {}\npatch_size = {}\nembed_dim = {}\ndepth = {}\n\
             num_heads = {}\nwindow_size = {}\nmlp_ratio = {}\ndrop_path = {}\n[model.attention]\n{attention}",
            model["img_size"],
            model["patch_size"],
            model["embed_dim"],
            model["depths"],
            model["num_heads"],
            model["window_size"],
            model["mlp_ratio"],
            golden["drop_path"],
        ),
        format!(
            "[augment]\nmean = {}\nstd = {}",
            in_units(&golden["mean"]),
            in_units(&golden["std"])
        ),
        format!(
            "[optim]\nlr = {}\nlr_batch = 0\nbetas = {}\neps = {}\nweight_decay = {}",
            golden["lr"], golden["betas"], golden["eps"], golden["weight_decay"],
        ),
        format!(
            "[train]\nbatch_size = {}\nupdates = {}\ndevice = \"cpu\"\n",
            golden["batch_size"], golden["updates"],
        ),
    ];
    sections.join("\n")
}

/// Levels of 0 to 255 as shares of 1.
fn in_units(levels: &Value) -> String {
    let levels = levels.as_array().unwrap().iter();
    let shares: Vec<f64> = levels
        .map(|level| level.as_f64().unwrap() / 255.0)
        .collect();
    format!("{shares:?}")
}
