#![expect(clippy::unwrap_used, reason = "tests")]

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use kvt_ops::{Key, Phase};

use super::*;
use crate::family::families::ModelConfig;
use crate::family::model_keys::ModelOverrides;
use crate::network::Network;
use crate::weights::pos_embed::{Bicubic, Form};

fn config(overrides: &ModelOverrides) -> ModelConfig {
    let small = ModelOverrides {
        img_size: Some(16.into()),
        patch_size: Some(4),
        embed_dim: Some(12.into()),
        depth: Some(2.into()),
        num_classes: Some(5),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    config.with(&small).unwrap().with(overrides).unwrap()
}

fn model(seed: u64, overrides: &ModelOverrides) -> Model {
    config(overrides)
        .init(&Device::flex(), Key::new(seed))
        .unwrap()
}

fn same() -> ModelOverrides {
    ModelOverrides::default()
}

fn logits(model: &Model) -> TensorData {
    let side = model.config().img_size().side();
    let image = Tensor::arange(0..(3 * side * side) as i64, &Device::flex()).float();
    let images = (image * 0.37).sin().reshape([1, 3, side, side]);
    model.forward(images, Phase::Eval).into_data()
}

#[test]
fn a_model_takes_another_ones_weights() {
    let source = model(1, &same());
    let weights = StateDict::from_model(&source).unwrap();
    let target = model(2, &same());
    assert_ne!(logits(&target), logits(&source));

    let (target, report) = target.load(&weights, LoadOptions::default()).unwrap();
    assert_eq!(logits(&target), logits(&source));
    assert_eq!(StateDict::from_model(&target).unwrap(), weights);
    assert_eq!(report.to_string(), "32 matched");
}

/// A large model's weights fit into memory twice: those of the file, and the model's.
#[test]
fn loading_copies_weights_only_into_the_model() {
    let weights = StateDict::from_model(&model(1, &same())).unwrap();
    let name = "blocks.1.mlp.fc2.weight";
    let found = weights.shared(name).unwrap();
    let target = model(2, &same());
    for layout in [Layout::Timm, Layout::Official] {
        let renamed = target.rename(&weights, layout);
        assert!(Arc::ptr_eq(renamed.shared(name).unwrap(), found));
    }
    let shape = found.shape().to_vec();
    let fit = target.fit(name, &shape, Some(found), LoadOptions::default());
    let (outcome, data) = fit.unwrap();
    let data = data.unwrap();
    assert_eq!(outcome, Outcome::Matched);
    assert!(Arc::ptr_eq(&data, found));
    let put = bridge::into_data(deferred(data, "weight".to_owned())).unwrap();
    assert_eq!(put, **found);
    assert_ne!(put.as_bytes().as_ptr(), found.as_bytes().as_ptr());

    // The model is independent of them.
    let (loaded, _) = target.load(&weights, LoadOptions::default()).unwrap();
    assert_eq!(Arc::strong_count(found), 1);
    assert_eq!(StateDict::from_model(&loaded).unwrap(), weights);
}

#[test]
fn linear_weights_leave_in_pytorchs_layout() {
    let source = model(1, &same());
    let weights = StateDict::from_model(&source).unwrap();
    let mut visitor = HeadWeight::default();
    source.head.visit(&mut visitor);
    let [d_in, d_out] = visitor.dims;
    let head = weights.get("head.weight").unwrap();
    assert_eq!(head.shape().as_slice(), [d_out, d_in]);
    let head = head.try_to_vec::<f32>().unwrap();
    for (i, o) in (0..d_in).flat_map(|i| (0..d_out).map(move |o| (i, o))) {
        assert_eq!(head[o * d_in + i], visitor.values[i * d_out + o]);
    }
}

/// The weight of the classifier in Burn's layout.
#[derive(Default)]
struct HeadWeight {
    path: Vec<String>,
    dims: [usize; 2],
    values: Vec<f32>,
}

impl ModuleVisitor for HeadWeight {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.path.join(".") == "class.weight" {
            let data = param.val().into_data();
            self.dims = [data.shape()[0], data.shape()[1]];
            self.values = data.try_to_vec().unwrap();
        }
    }
}

#[test]
fn loaded_weights_still_train() {
    let device = Device::flex().autodiff();
    let weights = StateDict::from_model(&model(1, &same())).unwrap();
    let target = config(&same()).init(&device, Key::new(2)).unwrap();
    let ids: Vec<_> = target.parameters().into_iter().map(|p| p.id).collect();
    let (target, _) = target.load(&weights, LoadOptions::default()).unwrap();
    assert_eq!(
        target
            .parameters()
            .into_iter()
            .map(|p| p.id)
            .collect::<Vec<_>>(),
        ids
    );

    let images = Tensor::ones([1, 3, 16, 16], &device);
    let grads = target
        .forward(images, Phase::Eval)
        .powi_scalar(2)
        .sum()
        .backward();
    let mut with_gradient = WithGradient(&grads, 0);
    target.visit(&mut with_gradient);
    assert_eq!(with_gradient.1, ids.len());
}

/// Counts the parameters that have a gradient.
struct WithGradient<'a>(&'a Gradients, usize);

impl ModuleVisitor for WithGradient<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.1 += usize::from(param.val().grad(self.0).is_some());
    }
}

#[test]
fn missing_and_mismatching_keys_are_listed() {
    let weights: StateDict = StateDict::from_model(&model(1, &same()))
        .unwrap()
        .into_iter()
        .filter(|(name, _)| name != "blocks.1.norm2.weight")
        .chain([("fc.weight".to_owned(), TensorData::zeros::<f32, _>([2, 2]))])
        .map(|(name, data)| match name.as_str() {
            "norm.bias" => (name, TensorData::zeros::<f32, _>([13])),
            _ => (name, data),
        })
        .collect();

    let error = model(2, &same())
        .load(&weights, LoadOptions::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights do not fit the model: `blocks.1.norm2.weight` is missing; \
         `norm.bias` has shape [13], expected [12]; 1 key is unused, such as `fc.weight`"
    );

    let lenient = LoadOptions {
        partial: true,
        ..LoadOptions::default()
    };
    let (_, report) = model(2, &same()).load(&weights, lenient).unwrap();
    let names = |outcome| report.names(outcome).collect::<Vec<_>>();
    assert_eq!(names(Outcome::Missing), ["blocks.1.norm2.weight"]);
    assert_eq!(names(Outcome::Mismatched), ["norm.bias"]);
    assert_eq!(names(Outcome::Unused), ["fc.weight"]);
    assert_eq!(names(Outcome::Matched).len(), 30);
    assert_eq!(
        report.to_string(),
        "30 matched, 1 missing, 1 mismatched, 1 unused"
    );
}

#[test]
fn a_head_of_another_size_is_reset_on_request_only() {
    let weights = StateDict::from_model(&model(1, &same())).unwrap();
    let other = ModelOverrides {
        num_classes: Some(7),
        ..same()
    };
    let error = model(2, &other)
        .load(&weights, LoadOptions::default())
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("`head.weight` has shape [5, 12], expected [7, 12]"),
        "{message}"
    );
    assert!(matches!(
        error,
        WeightsError::Incompatible {
            misfit: Misfit::Head,
            ..
        }
    ));

    let reset = LoadOptions {
        reset_head: true,
        ..LoadOptions::default()
    };
    let fresh = StateDict::from_model(&model(2, &other)).unwrap();
    let (loaded, report) = model(2, &other).load(&weights, reset).unwrap();
    let loaded = StateDict::from_model(&loaded).unwrap();
    assert_eq!(
        report.names(Outcome::Reset).collect::<Vec<_>>(),
        ["head.weight", "head.bias"]
    );
    assert_eq!(loaded.get("head.weight"), fresh.get("head.weight"));
    assert_eq!(loaded.get("norm.weight"), weights.get("norm.weight"));
    assert_eq!(
        loaded.get("blocks.1.mlp.fc2.weight"),
        weights.get("blocks.1.mlp.fc2.weight")
    );

    // A head that fits is loaded anyway.
    let (loaded, _) = model(2, &same()).load(&weights, reset).unwrap();
    assert_eq!(StateDict::from_model(&loaded).unwrap(), weights);

    // Unless a new one is requested.
    let new = LoadOptions {
        new_head: true,
        ..LoadOptions::default()
    };
    let (loaded, report) = model(2, &same()).load(&weights, new).unwrap();
    assert_eq!(report.to_string(), "30 matched, 2 reset");
    let (loaded, fresh) = (
        StateDict::from_model(&loaded),
        StateDict::from_model(&model(2, &same())),
    );
    let (loaded, fresh) = (loaded.unwrap(), fresh.unwrap());
    assert_eq!(loaded.get("head.weight"), fresh.get("head.weight"));
    assert_eq!(loaded.get("norm.weight"), weights.get("norm.weight"));
}

#[test]
fn position_embeddings_follow_the_image_size() {
    let weights = StateDict::from_model(&model(1, &same())).unwrap();
    for (size, grid) in [([24, 24], [6, 6]), ([12, 24], [3, 6])] {
        let other = ModelOverrides {
            img_size: Some(size.into()),
            ..same()
        };
        let (loaded, report) = model(2, &other)
            .load(&weights, LoadOptions::default())
            .unwrap();
        assert_eq!(
            report.names(Outcome::Resized).collect::<Vec<_>>(),
            ["pos_embed"]
        );
        let expected = Bicubic::Antialiased
            .resample(weights.get("pos_embed").unwrap(), grid, Form::Tokens(1))
            .unwrap();
        let loaded = StateDict::from_model(&loaded).unwrap();
        assert_eq!(loaded.get("pos_embed"), Some(&expected));
    }
}

#[test]
fn integers_are_no_weights() {
    let mut weights = StateDict::from_model(&model(1, &same())).unwrap();
    weights.insert("norm.bias", TensorData::zeros::<i64, _>([12]));
    let error = model(2, &same())
        .load(&weights, LoadOptions::default())
        .unwrap_err();
    assert!(matches!(error, WeightsError::NotFloat { name, .. } if name == "norm.bias"));
}
