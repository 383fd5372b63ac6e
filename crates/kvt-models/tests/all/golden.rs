//! Logits and gradients against the models in Python.
//!
//! Each file of `scripts/reference` has weights under timm's names (CvT's own for CvT) with the prefix `weights.`,
//! `images`, `logits`, a `probe`, and gradients of `sum(logits * probe)` with the prefix `grad.`: with respect to the
//! images and to every parameter. A large gradient has the prefix `grad_sketch.` instead, and is stored as its norm
//! and its products with some vectors. Models with batch norms also have `train.` for a step of training from the
//! same weights: logits, gradients, and the running statistics after it. In newer files, weights, images and `probe`
//! are drawn instead, see `seeded.rs`. Models with an output for every token have both outputs as `logits.class` and
//! `logits.aux`, and `mix.` for a step of training with mixed tokens.

use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use kvt_attention::Implementation;
use kvt_models::weights::{LoadOptions, Outcome, StateDict, read};
use kvt_models::{Ask, Model, Network, Parameter};
use kvt_ops::{Key, Phase};

use crate::cases::{config, file_name, files, folder};
use crate::seeded;
use crate::sketch::sketch;

/// Largest difference, relative to the largest magnitude.
const TOLERANCE: f32 = 1e-4;

#[test]
fn deit_is_timms() {
    compare_family("deit_");
}

#[test]
fn vit_is_timms() {
    compare_family("vit_");
}

#[test]
fn vit_is_the_same_on_a_gpu() {
    compare_on_gpu("vit_dinov3_plus");
}

#[test]
fn swin_is_timms() {
    compare_family("swin_");
}

#[test]
fn pit_is_timms() {
    compare_family("pit_");
}

#[test]
fn cvt_is_the_originals() {
    compare_family("cvt_");
}

/// A seeded file: a change of one weight changes all of its results.
#[test]
fn one_other_weight_is_noticed() {
    let device = Device::flex().autodiff();
    let path = &files("deit_seeded")[0];
    let mut golden = Golden::new(path, Implementation::Auto, &device);
    let mut model = config(path, Implementation::Auto)
        .init(&device, Key::new(0))
        .unwrap();
    let mut weights = named_after(&golden.tensors, "weights.");
    let name = "blocks.0.mlp.fc1.weight";
    let mut values: Vec<f32> = weights.get(name).unwrap().try_to_vec().unwrap();
    values[37] += 1.0;
    let shape = weights.get(name).unwrap().shape().clone();
    weights.insert(name, TensorData::new(values, shape));
    (model, _) = model.load(&weights, LoadOptions::default()).unwrap();
    golden.compare_pass(&model, Phase::Eval, "");
    for name in [
        "logits",
        "grad_sketch.images",
        "grad.head.weight",
        "grad_sketch.blocks.0.mlp.fc1.weight",
    ] {
        let found = golden
            .differences
            .iter()
            .any(|line| line.starts_with(&format!("{name}:")));
        assert!(found, "{name}: {:?}", golden.differences);
    }
}

#[test]
fn tnt_is_timms() {
    compare_family("tnt_");
}

#[test]
fn visformer_is_timms() {
    compare_family("visformer_");
}

#[test]
fn so_vit_is_the_originals() {
    compare_family("sovit_");
}

#[test]
fn twins_is_timms() {
    compare_family("twins_");
}

#[test]
fn t2t_is_the_originals() {
    compare_family("t2t_");
}

#[test]
fn volo_is_timms() {
    compare_family("volo_");
}

#[test]
fn deit_is_the_same_on_a_gpu() {
    compare_on_gpu("deit_distilled_knn");
}

#[test]
fn swin_is_the_same_on_a_gpu() {
    compare_on_gpu("swin_padding_knn");
}

#[test]
fn pit_is_the_same_on_a_gpu() {
    compare_on_gpu("pit_overlap");
}

#[test]
fn cvt_is_the_same_on_a_gpu() {
    compare_on_gpu("cvt_one_stage");
}

#[test]
fn tnt_is_the_same_on_a_gpu() {
    compare_on_gpu("tnt_knn_fraction");
}

#[test]
fn visformer_is_the_same_on_a_gpu() {
    compare_on_gpu("visformer_temperature");
}

#[test]
fn so_vit_is_the_same_on_a_gpu() {
    compare_on_gpu("sovit_knn_fraction");
}

#[test]
fn twins_is_the_same_on_a_gpu() {
    compare_on_gpu("twins_padding_knn");
}

#[test]
fn t2t_is_the_same_on_a_gpu() {
    compare_on_gpu("t2t_knn_count");
}

#[test]
fn volo_is_the_same_on_a_gpu() {
    compare_on_gpu("volo_fine");
}

/// MixToken in a step of training: with tokens of another image in a box, each output equals that of the official
/// model, and so does the gradient of their combination.
#[test]
fn volo_is_the_official_one_with_mixed_tokens() {
    let device = Device::flex().autodiff();
    for path in files("volo_") {
        let mut golden = Golden::new(&path, Implementation::Auto, &device);
        let model = config(&path, Implementation::Auto)
            .init(&device, Key::new(0))
            .unwrap();
        let weights = named_after(&golden.tensors, "weights.");
        let (model, _) = model.load(&weights, LoadOptions::default()).unwrap();

        let corners: Vec<f32> = golden.tensors.get("mix.box").unwrap().try_to_vec().unwrap();
        // The tokens of a box that is `scale` times larger come from the image at the other end of the batch.
        let exchange = |tokens: Tensor<3>, [rows, columns]: [usize; 2], scale: usize| {
            let [batch, count, width] = tokens.dims();
            let corner = |i: usize| corners[i] as usize * scale;
            let map = tokens.reshape([batch, rows, columns, width]);
            let place = [
                0..batch,
                corner(0)..corner(1),
                corner(2)..corner(3),
                0..width,
            ];
            let partners = map.clone().flip([0]).slice(place.clone());
            map.slice_assign(place, partners)
                .reshape([batch, count, width])
        };
        let scale = model.config().token_scale().unwrap();
        let mix = |tokens: Tensor<3>, grid: [usize; 2]| exchange(tokens, grid, scale);
        let ask = Ask {
            mix: Some(&mix),
            ..Ask::default()
        };
        let images = golden.images();
        let heads = model.forward_asked(images.clone(), &ask, Phase::Train(Key::new(1)));
        golden.compare("mix.class", heads.class.to_data());
        let aux = heads.aux.unwrap();
        let side = aux.dims()[1].isqrt();
        let aux = exchange(aux, [side; 2], 1);
        golden.compare("mix.aux", aux.to_data());

        let probe = golden.tensors.get("probe").unwrap().clone();
        let probe = Tensor::<2>::from_data(probe, &device);
        let of_tokens = (aux * probe.clone().unsqueeze_dim::<3>(1)).sum();
        let grads = ((heads.class * probe).sum() + of_tokens).backward();
        let of_images = images.grad(&grads).unwrap().into_data();
        golden.compare_sketch("grad_sketch.mix.images", &of_images);
        golden.finish();
    }
}

#[test]
fn a_nested_pytorch_checkpoint_gives_the_same_weights() {
    let golden = read(&folder().join("deit_nested.safetensors")).unwrap();
    let checkpoint = read(&folder().join("deit_nested.pth")).unwrap();
    assert_eq!(checkpoint, named_after(&golden, "weights."));
}

/// The family of which a case runs on a GPU without being asked for: a software driver takes minutes to compile the kernels of a case.
/// It has k-NN attention, layer and batch norms, and convolutions, one of which makes the tokens after a class token. Every operation is
/// tested in `kvt-ops`, every option of a ViT, forward alone, in `vit.rs`, and the first steps of a DeiT in `kvt`.
const ON_GPU: &str = "cvt_";

/// `KVT_GPU_CASES` selects cases of all families: the beginning of their names, or `all`.
fn compare_on_gpu(case: &str) {
    let Some((_, device)) = kvt_testing::devices::gpu() else {
        return;
    };
    let family = case.split_inclusive('_').next().unwrap();
    let asked = std::env::var("KVT_GPU_CASES").unwrap_or_default();
    let start = match asked.as_str() {
        "all" => family,
        start if !start.is_empty() && (start.starts_with(family) || family.starts_with(start)) => {
            start
        }
        // Nothing of this family is asked for.
        _ if family != ON_GPU && !kvt_testing::asks_for(family) => return,
        _ => case,
    };
    let is_asked = |path: &PathBuf| file_name(path).starts_with(start);
    for path in files(family).into_iter().filter(is_asked) {
        compare(&path, Implementation::Auto, &device.clone().autodiff());
    }
}

fn compare_family(family: &str) {
    let device = Device::flex().autodiff();
    for path in files(family) {
        for implementation in [
            Implementation::Auto,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            compare(&path, implementation, &device);
        }
    }
}

fn compare(path: &Path, implementation: Implementation, device: &Device) {
    let mut golden = Golden::new(path, implementation, device);
    let model = config(path, implementation)
        .init(device, Key::new(0))
        .unwrap();
    let weights = named_after(&golden.tensors, "weights.");
    let (model, report) = model.load(&weights, LoadOptions::default()).unwrap();
    let matched = report.names(Outcome::Matched).count();
    assert_eq!(matched, report.rows.len(), "{}: {report}", golden.case);

    golden.compare_pass(&model, Phase::Eval, "");
    let train = Phase::Train(Key::new(1));
    if golden.tensors.get("train.logits").is_some() {
        golden.compare_pass(&model, train, "train.");
    } else {
        // Without drop path and batch norms, training gives the same logits.
        let logits = model.forward(golden.images(), train);
        golden.compare("logits", logits.into_data());
    }
    let after = StateDict::from_model(&model).unwrap();
    for (name, _) in named_after(&golden.tensors, "train.running.").iter() {
        let statistic = after.get(name).unwrap().clone();
        golden.compare(&format!("train.running.{name}"), statistic);
    }
    golden.finish();
}

/// The results of Python, and the device for the computation here.
pub(crate) struct Golden<'a> {
    case: String,
    pub(crate) tensors: StateDict,
    device: &'a Device,
    /// The differences from Python. All are reported: the set of wrong gradients shows where to look.
    differences: Vec<String>,
}

impl<'a> Golden<'a> {
    pub(crate) fn new(path: &Path, implementation: Implementation, device: &'a Device) -> Self {
        Self {
            case: format!("{} {implementation:?}", path.display()),
            tensors: seeded::golden(path),
            device,
            differences: Vec::new(),
        }
    }

    fn images(&self) -> Tensor<4> {
        let images = self.tensors.get("images").unwrap().clone();
        Tensor::from_data(images, self.device).require_grad()
    }

    /// Compares logits and gradients of one pass with those under `prefix`.
    fn compare_pass(&mut self, model: &Model, phase: Phase, prefix: &str) {
        let images = self.images();
        model.check_input(images.dims()).unwrap();
        let heads = model.forward_heads(images.clone(), phase);
        if let Some(distillation) = &heads.distillation
            && self.tensors.get("logits.distillation").is_some()
        {
            self.compare("logits.class", heads.class.to_data());
            self.compare("logits.distillation", distillation.to_data());
        }
        if let Some(aux) = &heads.aux
            && prefix.is_empty()
        {
            self.compare("logits.class", heads.class.to_data());
            self.compare("logits.aux", aux.to_data());
        }
        let logits = heads.mean();
        self.compare(&format!("{prefix}logits"), logits.to_data());

        let probe = self.tensors.get("probe").unwrap().clone();
        let probe = Tensor::from_data(probe, self.device);
        let grads = (logits * probe).sum().backward();
        let of_images = images.grad(&grads).unwrap().into_data();
        let scale = largest(&of_images);
        let sketched = format!("{prefix}grad_sketch.images");
        if self.tensors.get(&sketched).is_some() {
            self.compare_sketch(&sketched, &of_images);
        } else {
            self.compare(&format!("{prefix}grad.images"), of_images);
        }
        for Parameter { name, .. } in model.parameters() {
            let grad = gradient(model, &name, &grads);
            let sketched = format!("{prefix}grad_sketch.{name}");
            let stored = format!("{prefix}grad.{name}");
            if self.tensors.get(&sketched).is_some() {
                self.compare_sketch(&sketched, &grad.unwrap());
            } else if self.tensors.get(&stored).is_some() {
                self.compare(&stored, grad.unwrap());
            } else if prefix.is_empty() {
                // Python leaves out gradients that are zero up to rounding.
                let largest = grad.as_ref().map_or(0.0, largest);
                if largest.is_nan() || largest > TOLERANCE * scale {
                    self.differences
                        .push(format!("{stored}: up to {largest} for nothing"));
                }
            }
        }
    }

    /// Fails if anything differs from Python.
    pub(crate) fn finish(&self) {
        let differences = self.differences.join("\n");
        assert!(differences.is_empty(), "{}:\n{differences}", self.case);
    }

    /// Each number of a sketch is as exact as the norm of the gradient.
    pub(crate) fn compare_sketch(&mut self, name: &str, actual: &TensorData) {
        let expected: Vec<f32> = self.tensors.get(name).unwrap().try_to_vec().unwrap();
        let actual = sketch(&actual.try_to_vec::<f32>().unwrap());
        let norm = f64::from(expected[0]);
        assert!(norm > 0.0, "{}: {name} is all zeros", self.case);
        let close = actual
            .iter()
            .zip(&expected)
            .all(|(a, &e)| (a - f64::from(e)).abs() < f64::from(TOLERANCE) * norm);
        if !close {
            self.differences
                .push(format!("{name}: {actual:?} for {expected:?}"));
        }
    }

    pub(crate) fn compare(&mut self, name: &str, actual: TensorData) {
        let expected = self.tensors.get(name).unwrap();
        assert_eq!(actual.shape(), expected.shape(), "{}: {name}", self.case);
        let actual: Vec<f32> = actual.try_into_vec().unwrap();
        let expected: Vec<f32> = expected.clone().try_into_vec().unwrap();
        let largest = largest(self.tensors.get(name).unwrap());
        assert!(largest > 0.0, "{}: {name} is all zeros", self.case);
        let pairs = actual.iter().zip(&expected);
        let wrong = |(actual, expected): &(&f32, &f32)| {
            let difference = (*actual - *expected).abs() / largest;
            // A NaN is not an agreement.
            difference.is_nan() || difference >= TOLERANCE
        };
        let count = pairs.clone().filter(wrong).count();
        if let Some((actual, expected)) = pairs.clone().find(wrong) {
            self.differences.push(format!(
                "{name}: {count} of {} values, the first {actual} for {expected}",
                pairs.len()
            ));
        }
    }
}

/// The tensors whose names begin with `prefix`, without it.
pub(crate) fn named_after(tensors: &StateDict, prefix: &str) -> StateDict {
    tensors
        .iter()
        .filter_map(|(name, data)| Some((name.strip_prefix(prefix)?.to_owned(), data.clone())))
        .collect()
}

/// The largest magnitude; NaN if there is one.
fn largest(tensor: &TensorData) -> f32 {
    let values: Vec<f32> = tensor.try_to_vec().unwrap();
    let larger = |a: f32, b: f32| if a.is_nan() || a > b { a } else { b };
    values.iter().map(|value| value.abs()).fold(0.0, larger)
}

/// The gradient of a parameter in PyTorch's layout, if it has one.
fn gradient(model: &Model, name: &str, grads: &Gradients) -> Option<TensorData> {
    let parameters = model.parameters();
    let parameter = parameters
        .iter()
        .find(|parameter| parameter.name == name)
        .unwrap_or_else(|| panic!("there is no `{name}`"));
    gradient_of(model, parameter, grads)
}

/// The gradient of a parameter of any module in PyTorch's layout, if it has one.
pub(crate) fn gradient_of(
    module: &impl Module,
    parameter: &Parameter,
    grads: &Gradients,
) -> Option<TensorData> {
    let mut found = GradientOf {
        id: parameter.id,
        grads,
        // Burn stores the weight of a linear layer as `[in, out]`.
        transposed: parameter.shape.len() == 2 && parameter.name.ends_with(".weight"),
        gradient: None,
    };
    module.visit(&mut found);
    found.gradient
}

/// Looks for the gradient of one parameter.
struct GradientOf<'a> {
    id: ParamId,
    grads: &'a Gradients,
    transposed: bool,
    gradient: Option<TensorData>,
}

impl ModuleVisitor for GradientOf<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.id != self.id {
            return;
        }
        let gradient = param.val().grad(self.grads).map(|grad| {
            if self.transposed {
                grad.transpose()
            } else {
                grad
            }
        });
        self.gradient = gradient.map(Tensor::into_data);
    }
}
