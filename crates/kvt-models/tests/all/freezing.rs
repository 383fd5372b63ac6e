//! A frozen backbone: only the head is trained, and the rest does not change and runs as in evaluation.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use kvt_models::weights::{LoadOptions, StateDict};
use kvt_models::{Model, ModelConfig, ModelOverrides, Network};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, configs, images, values};

fn training() -> Phase {
    Phase::Train(Key::new(3))
}

fn frozen(config: &ModelConfig) -> Model {
    let model = config
        .init(&Device::flex().autodiff(), Key::new(1))
        .unwrap();
    model.freeze_backbone()
}

fn dropping() -> ModelOverrides {
    ModelOverrides {
        drop_path: Some(0.5),
        attn_drop: Some(0.5),
        ..ModelOverrides::default()
    }
}

/// How many parameters have a gradient.
struct Count<'a>(&'a Gradients, usize);

impl ModuleVisitor for Count<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.1 += usize::from(param.val().grad(self.0).is_some());
    }
}

fn with_gradient(module: &impl Module, gradients: &Gradients) -> usize {
    let mut count = Count(gradients, 0);
    module.visit(&mut count);
    count.1
}

#[test]
fn a_frozen_backbone_works_as_in_evaluation_and_gets_no_gradient() {
    let device = Device::flex().autodiff();
    for config in configs(&dropping()) {
        let name = config.name();
        let model = frozen(&config);
        let before = StateDict::from_model(&model).unwrap();
        let input = || images([SIDE; 2], &device);
        let trained = model.forward(input(), training());
        // The head of So-ViT has batch norms, which run as in training.
        let norms_in_head = name.starts_with("so_vit");
        let evaluated = values(model.forward(input(), Phase::Eval));
        assert_eq!(
            values(trained.clone()) == evaluated,
            !norms_in_head,
            "{name}"
        );
        let gradients = trained.clone().powi_scalar(2).sum().backward();
        assert_eq!(with_gradient(&model.backbone, &gradients), 0, "{name}");
        let of_head = if norms_in_head {
            11
        } else {
            2 * (1 + usize::from(config.token_scale().is_some()))
        };
        assert_eq!(with_gradient(&model.head, &gradients), of_head, "{name}");
        // The running statistics of batch norms have not changed either.
        let of_backbone = |weights: StateDict| -> StateDict {
            let weights = weights.into_iter();
            weights
                .filter(|(name, _)| !name.starts_with("classifier."))
                .collect()
        };
        let after = StateDict::from_model(&model).unwrap();
        assert_eq!(of_backbone(after), of_backbone(before), "{name}");

        // The same model without freezing: drop path, and gradients everywhere.
        let free = config.init(&device, Key::new(1)).unwrap();
        let out = free.forward(input(), training());
        assert_ne!(values(out.clone()), values(trained), "{name}");
        let gradients = out.powi_scalar(2).sum().backward();
        assert!(with_gradient(&free.backbone, &gradients) > 2, "{name}");
        assert!(free.frozen().is_empty());
    }
}

#[test]
fn only_the_head_is_a_parameter_also_after_loading() {
    for config in configs(&ModelOverrides::default()) {
        let name = config.name();
        let other = config.init(&Device::flex(), Key::new(2)).unwrap();
        let weights = StateDict::from_model(&other).unwrap();
        let (model, report) = frozen(&config)
            .load(&weights, LoadOptions::default())
            .unwrap();
        assert!(report.fits());
        assert_eq!(StateDict::from_model(&model).unwrap(), weights, "{name}");
        for model in [&model, &model.valid(), &model.valid().train()] {
            let names: Vec<String> = model.parameters().into_iter().map(|p| p.name).collect();
            let (of_head, statistics) = if name.starts_with("so_vit") {
                (11, 4)
            } else {
                (2 * (1 + usize::from(config.token_scale().is_some())), 0)
            };
            assert_eq!(names.len(), of_head, "{name}: {names:?}");
            let is_of_head = |name: &String| {
                ["head.", "aux_head.", "classifier."]
                    .iter()
                    .any(|head| name.starts_with(head))
            };
            assert!(names.iter().all(is_of_head), "{names:?}");
            let all = weights.len() - statistics;
            assert_eq!(model.frozen().len() + names.len(), all, "{name}");
        }
    }
}
