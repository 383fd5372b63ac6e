//! Ten updates as in MMSegmentation.
//!
//! The files are written by `scripts/reference/dense_trajectory.py`: initial weights, images, masks and the order of the images,
//! which both runs share, and the results.

use std::fmt::Write as _;

use burn::tensor::TensorData;
use image::{GrayImage, RgbImage};
use kvt_models::dense::read_dense;
use kvt_models::weights::{self, StateDict};
use safetensors::SafeTensors;
use serde_json::Value;

use super::*;
use crate::run::StepRecord;

const SIDE: usize = 48;

struct Golden(Vec<u8>);

impl Golden {
    fn read(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/dense");
        Self(fs_err::read(format!("{folder}/{name}.safetensors")).unwrap())
    }

    fn metadata(&self, key: &str) -> Value {
        let (_, header) = SafeTensors::read_metadata(&self.0).unwrap();
        serde_json::from_str(&header.metadata().as_ref().unwrap()[key]).unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        tensors.tensor(name).unwrap().data().to_vec()
    }

    fn f32s(&self, name: &str) -> Vec<f64> {
        let bytes = self.bytes(name);
        let (numbers, _) = bytes.as_chunks::<4>();
        let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
        numbers.iter().map(number).collect()
    }

    /// Writes the tensors with a prefix as an ordinary weight file.
    fn write(&self, prefix: &str, file: &Path) {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let weights = tensors.tensors().into_iter().filter_map(|(name, view)| {
            let name = name.strip_prefix(prefix)?.to_owned();
            Some((name, view))
        });
        let bytes = safetensors::serialize(weights, None).unwrap();
        fs_err::write(file, bytes).unwrap();
    }
}

#[test]
fn dense_training_is_mmsegmentations() {
    is_mmsegmentations("dense");
}

#[test]
fn knn_training_is_mmsegmentations() {
    is_mmsegmentations("knn");
}

fn is_mmsegmentations(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (start, golden) = (
        Golden::read("dense_trajectory"),
        Golden::read(&format!("dense_trajectory_{kind}")),
    );
    start.write("weights.", &path("init.safetensors"));
    write_images(&start, &path("data"));
    let config = config(&golden.metadata("config"), folder.path());
    fs_err::write(path("golden.toml"), config).unwrap();
    let (end, events) = train(&path("golden.toml"), &[], Start::New, u64::MAX).unwrap();
    assert_eq!(end, End::Finished);

    let steps: Vec<&StepRecord> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    let close = |what: &str, tolerance: f64, found: &dyn Fn(&StepRecord) -> f64| {
        let expected = golden.f32s(what);
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
    close("decode_losses", 1e-5, &|step| {
        step.metrics.get("main_loss").unwrap()
    });
    close("aux_losses", 1e-5, &|step| {
        step.metrics.get("auxiliary_loss").unwrap()
    });
    close("losses", 1e-5, &|step| step.loss);
    close("grad_norms", 1e-4, &|step| step.grad_norm);

    // The final weights, under our names. Where the reference in f32 and in f64 differ, gradients are rounding alone.
    golden.write("final.", &path("final.safetensors"));
    let plan = load_plan(&path("golden.toml"), &[]).unwrap();
    let model = plan.model.config(None).unwrap();
    let theirs = weights::read(&path("final.safetensors")).unwrap();
    let drift = golden.metadata("drift");
    let drift: StateDict = theirs
        .iter()
        .map(|(name, data)| {
            let shape = data.shape().to_vec();
            let numbers = vec![drift[name].as_f64().unwrap_or(0.0) as f32; shape.iter().product()];
            (name.to_owned(), TensorData::new(numbers, shape))
        })
        .collect();
    let [theirs, drift] = [theirs, drift].map(|state| read_dense(state, &model).unwrap().state);
    let checkpoints = crate::run::Checkpoints::new(path("run/checkpoints"));
    let (checkpoint, _) = checkpoints.load(crate::run::Which::Last).unwrap();
    let ours = weights::read(&checkpoint.file("model.safetensors")).unwrap();
    let mut compared = 0;
    for (name, ours) in ours.iter() {
        let numbers = |data: &TensorData| data.try_to_vec::<f32>().unwrap();
        let (theirs, drift) = (theirs.get(name).unwrap(), drift.get(name).unwrap());
        let drift = numbers(drift).first().copied().unwrap_or(0.0);
        for (a, b) in numbers(ours).into_iter().zip(numbers(theirs)) {
            let most = 2e-5 * b.abs().max(1.0) + 10.0 * drift;
            assert!((a - b).abs() <= most, "{name}: {a} {b}, at most {most}");
        }
        compared += 1;
    }
    assert!(compared > 80);
}

/// Writes the images and masks, which every epoch goes through in the order of the file; the first one is for validation, too.
fn write_images(golden: &Golden, data: &Path) {
    let order = golden.bytes("order");
    let (order, _) = order.as_chunks::<8>();
    let order: Vec<i64> = order
        .iter()
        .map(|bytes| i64::from_le_bytes(*bytes))
        .collect();
    assert!((0..).zip(&order).all(|(at, &image)| image == at % 8));
    let (pixels, labels) = (golden.bytes("pixels"), golden.bytes("labels"));
    let images = pixels
        .chunks(SIDE * SIDE * 3)
        .zip(labels.chunks(SIDE * SIDE));
    for (index, (pixels, labels)) in images.enumerate() {
        let side = SIDE as u32;
        let image = RgbImage::from_raw(side, side, pixels.to_vec()).unwrap();
        let mask = GrayImage::from_raw(side, side, labels.to_vec()).unwrap();
        for split in ["train", "val"]
            .into_iter()
            .take(1 + usize::from(index == 0))
        {
            let file = |kind: &str| {
                let folder = data.join(kind).join(split);
                fs_err::create_dir_all(&folder).unwrap();
                folder.join(format!("{index}.png"))
            };
            image.save(file("images")).unwrap();
            mask.save(file("masks")).unwrap();
        }
    }
}

fn config(golden: &Value, folder: &Path) -> String {
    let model = &golden["model"];
    let mut text = format!(
        "task = \"segment\"\n[run]\ndir = {:?}\n[init]\nweights = {:?}\n",
        folder.join("run"),
        folder.join("init.safetensors")
    );
    let attention = match &model["attention"]["neighbors"] {
        Value::Null => "kind = \"dense\"".to_owned(),
        neighbors => format!("kind = \"knn\"\nneighbors = {neighbors}"),
    };
    let sections = [
        format!(
            "[model]\nname = \"swin_tiny_patch4_window7_224\"\nimg_size = {}\npatch_size = {}\nembed_dim = {}\ndepths = {}\n\
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
            "[data]\nkind = \"masks\"\npath = {:?}\nclasses = 4\nshuffle = false\nworkers = 0",
            folder.join("data")
        ),
        format!(
            "[dense]\nscale = [{SIDE}, {SIDE}]\nratio = [1.0, 1.0]\ncrop = [{SIDE}, {SIDE}]\ncat_max_ratio = 1.0\nhflip = 0.0\n\
             photometric = false"
        ),
        format!(
            "[augment]\nmean = {}\nstd = {}",
            in_units(&golden["mean"]),
            in_units(&golden["std"])
        ),
        format!(
            "[segment]\nchannels = {}\npool_scales = {}\ndropout = {}\naux_stage = {}\naux_channels = {}\naux_weight = {}\naverage = {}",
            golden["channels"],
            golden["pool_scales"],
            golden["dropout"],
            golden["aux_stage"],
            golden["aux_channels"],
            golden["aux_weight"],
            golden["average"],
        ),
        format!(
            "[optim]\nlr = {}\nlr_batch = 0\nbetas = {}\neps = {}\nweight_decay = {}",
            golden["lr"], golden["betas"], golden["eps"], golden["weight_decay"],
        ),
        format!(
            "[schedule]\nkind = \"poly\"\npower = {}\nmin_lr = {}\nper = \"step\"\nwarmup_updates = {}\nwarmup_ratio = {}",
            golden["power"], golden["min_lr"], golden["warmup_updates"], golden["warmup_ratio"],
        ),
        format!(
            "[train]\nbatch_size = {}\nupdates = {}\ndevice = \"cpu\"",
            golden["batch_size"], golden["updates"],
        ),
    ];
    for section in sections {
        writeln!(text, "{section}").unwrap();
    }
    text
}

/// Levels of 0 to 255 as shares of 1.
fn in_units(levels: &Value) -> String {
    let levels = levels.as_array().unwrap().iter();
    let shares: Vec<f64> = levels
        .map(|level| level.as_f64().unwrap() / 255.0)
        .collect();
    format!("{shares:?}")
}
