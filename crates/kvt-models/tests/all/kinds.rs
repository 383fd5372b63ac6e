//! Every kind of attention: which families accept or refuse it, and its counts, gradients and weights.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use kvt_attention::{AttentionConfig, MemoryCompressedConfig};
use kvt_models::weights::{LoadOptions, Misfit, Outcome, StateDict, WeightsError};
use kvt_models::{Model, ModelConfig, ModelError, ModelOverrides, Network};
use kvt_ops::{Key, Phase};

use crate::small::{families, images, values};

/// All kinds but dense and k-NN attention.
fn others() -> impl Iterator<Item = AttentionConfig> {
    let all = AttentionConfig::defaults().into_iter();
    all.filter(|attention| !attention.is_softmax())
}

fn with(
    model: &str,
    attention: &AttentionConfig,
    more: ModelOverrides,
) -> Result<ModelConfig, ModelError> {
    ModelConfig::by_name(model)?.with(&ModelOverrides {
        attention: Some(attention.clone()),
        ..more
    })
}

/// At 384 px there are enough tokens for all defaults, except in the last stages of PiT and CvT.
fn large() -> ModelOverrides {
    ModelOverrides {
        img_size: Some(384.into()),
        ..ModelOverrides::default()
    }
}

#[test]
fn there_are_other_kinds() {
    assert!(others().count() > 0);
}

#[test]
fn families_take_every_kind_or_say_why_not() {
    let help = "use `dense` or `knn` here, or a ViT, PiT, CvT, T2T-ViT, TNT or So-ViT, whose blocks take every kind";
    let refusals = [
        (
            "swin_tiny_patch4_window7_224",
            "`layers.0` of Swin",
            "a position bias is added to all scores, and a mask in shifted windows",
        ),
        (
            "twins_svt_small",
            "`blocks.0` of Twins",
            "queries see the few keys of a window, as in a Twins",
        ),
        (
            "visformer_tiny",
            "`stage2` of Visformer",
            "no other attention has been tested, as between the convolutions of a Visformer",
        ),
        (
            "volo_d1_224",
            "`network.2` of VOLO",
            "no other attention has been tested, as after the outlookers of a VOLO",
        ),
    ];
    for attention in others() {
        let kind = attention.kind();
        for (model, place, reason) in refusals {
            let error = with(model, &attention, ModelOverrides::default()).unwrap_err();
            let expected =
                format!("in {place}: `kind = \"{kind}\"` cannot be used where {reason}: {help}");
            assert_eq!(error.to_string(), expected);
            assert!(matches!(error, ModelError::Within { .. }));
        }
        for model in [
            "deit_tiny_patch16_224",
            "t2t_vit_14",
            "tnt_s_patch16_224",
            "so_vit_14",
        ] {
            let config = with(model, &attention, large());
            let stages = config
                .unwrap_or_else(|error| panic!("{model}: {error}"))
                .summary()
                .stages;
            let last = stages.last().unwrap().attention.unwrap();
            assert_eq!(last.kind, kind, "{model}");
        }
    }
    // Dense and k-NN attention can be used everywhere.
    for attention in AttentionConfig::defaults() {
        for (model, ..) in refusals {
            let accepted = with(model, &attention, ModelOverrides::default()).is_ok();
            assert_eq!(accepted, attention.is_softmax(), "{model}");
        }
    }
}

/// A kind with settings for a few tokens.
fn fitted(attention: &AttentionConfig) -> AttentionConfig {
    let mut keys = serde_json::to_value(attention).unwrap();
    for (key, value) in [
        ("clusters", 2),
        ("kept", 1),
        ("rank", 2),
        ("landmarks", 2),
        ("features", 8),
        ("order", 1),
        ("ratio", 1),
    ] {
        if let Some(setting) = keys.get_mut(key) {
            *setting = value.into();
        }
    }
    serde_json::from_value(keys).unwrap()
}

/// Small models of the families whose blocks take every kind.
fn takers() -> impl Iterator<Item = (&'static str, ModelOverrides)> {
    families()
        .into_iter()
        .filter(|(name, _)| {
            ["deit", "pit", "cvt", "t2t", "tnt", "so_vit"]
                .iter()
                .any(|family| name.starts_with(family))
        })
        .map(|(name, overrides)| (name, crate::small::small(overrides)))
}

#[test]
fn every_kind_runs_and_learns_in_its_families() {
    assert_eq!(takers().count(), 6);
    let device = Device::flex().autodiff();
    for attention in others() {
        let (kind, attention) = (attention.kind(), fitted(&attention));
        for (name, overrides) in takers() {
            for kv_stride in [1, 2] {
                if name != "cvt_13" && kv_stride == 2 {
                    continue;
                }
                let overrides = ModelOverrides {
                    kv_stride: (name == "cvt_13").then_some(kv_stride),
                    ..overrides.clone()
                };
                let config = with(name, &attention, overrides);
                if kv_stride == 2 && ["scram", "poolingformer", "low-rank-band"].contains(&kind) {
                    let error = config.unwrap_err().to_string();
                    assert!(error.starts_with("in `stage"), "{error}");
                    continue;
                }
                let config = config.unwrap_or_else(|error| panic!("{name}: {error}"));
                let model = config.init(&device, Key::new(1)).unwrap();
                let logits = model.forward(images([16; 2], &device), Phase::Train(Key::new(3)));
                assert!(values(logits.clone()).iter().all(|x| x.is_finite()));
                let gradients = logits.powi_scalar(2).sum().backward();
                let mut idle = idle(&model, &gradients);
                idle.retain(|name| name.contains("mixer"));
                assert!(idle.is_empty(), "{name} {kind}: {idle:?}");

                // Another size is accepted, or refused with the one that fits.
                let checked = model.check_size([8, 20]);
                assert_eq!(checked.is_err(), kind == "linformer", "{name} {kind}");
                if checked.is_ok() {
                    let logits = model.forward(images([8, 20], &device), Phase::Eval);
                    assert!(values(logits).iter().all(|x| x.is_finite()));
                }
            }
        }
    }
}

/// If a stage has one token, there is one key at any stride, but a larger image has fewer keys than queries.
#[test]
fn a_stage_of_one_token_is_judged_as_in_a_larger_image() {
    let kind = others().find(|attention| attention.kind() == "low-rank-band");
    let attention = fitted(&kind.unwrap());
    let config = |kv_stride| {
        let overrides = ModelOverrides {
            img_size: Some(3.into()),
            kv_stride: Some(kv_stride),
            ..ModelOverrides::default()
        };
        with("cvt_13", &attention, overrides)
    };
    config(1).unwrap();
    let error = config(2).unwrap_err().to_string();
    assert!(error.starts_with("in `stage0`"), "{error}");
}

/// The class token of VOLO is a single query.
#[test]
fn a_lone_query_takes_softmax_attention_alone() {
    for attention in others() {
        let overrides = ModelOverrides {
            class_attention: Some(attention),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name("volo_d1_224")
            .unwrap()
            .with(&overrides);
        let error = config.unwrap_err().to_string();
        assert!(error.starts_with("in `post_network` of VOLO: "), "{error}");
        assert!(error.contains("only the class token is a query"), "{error}");
    }
}

/// `[model.attention]` applies to the layers where the kind can be used; a configuration made in code is refused.
#[test]
fn small_transformers_stay_dense_with_other_kinds() {
    let kinds = |config: &ModelConfig| -> Vec<&str> {
        let stages = config.summary().stages.into_iter();
        stages
            .filter_map(|stage| Some(stage.attention?.kind))
            .collect()
    };
    for attention in others() {
        let kind = attention.kind();
        let tnt = with("tnt_s_patch16_224", &attention, large()).unwrap();
        assert_eq!(kinds(&tnt), ["dense", kind]);
        let t2t = with("t2t_vit_t_14", &attention, large()).unwrap();
        assert_eq!(kinds(&t2t), ["dense", "dense", kind]);

        let ModelConfig::Tnt(mut tnt) = tnt else {
            panic!("another family");
        };
        tnt.attention[0] = attention;
        let error = ModelConfig::Tnt(tnt).validate().unwrap_err().to_string();
        let reason = "queries and keys are the few pixels of a patch";
        assert!(
            error.starts_with("in `inner` of TNT: ") && error.contains(reason),
            "{error}"
        );
    }
    // k-NN attention applies to all of them.
    let knn = AttentionConfig::knn(kvt_attention::Neighbors::Fraction(0.5));
    let tnt = with("tnt_s_patch16_224", &knn, ModelOverrides::default()).unwrap();
    assert_eq!(kinds(&tnt), ["knn", "knn"]);
}

/// A DeiT with 257 tokens, which are enough for all defaults.
fn small(attention: &AttentionConfig) -> ModelConfig {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: Some(2),
        embed_dim: Some(16.into()),
        depth: Some(2.into()),
        num_heads: Some(2.into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    with("deit_tiny_patch16_224", attention, overrides).unwrap()
}

fn build(attention: &AttentionConfig, seed: u64) -> Model {
    small(attention)
        .init(&Device::flex(), Key::new(seed))
        .unwrap()
}

#[test]
fn parameters_are_counted_and_named() {
    for attention in AttentionConfig::defaults() {
        let (kind, model) = (attention.kind(), build(&attention, 1));
        let summary = model.config().summary();
        let count = |name: &str| -> usize {
            let all = model.parameters().into_iter();
            let named = all.filter(|parameter| parameter.name.contains(name));
            named
                .map(|parameter| parameter.shape.iter().product::<usize>())
                .sum()
        };
        assert_eq!(count(""), summary.params, "{kind}");
        let own = summary.stages[0].attention.unwrap();
        assert_eq!(own.kind, kind);
        assert_eq!(count(".attn.mixer."), own.params, "{kind}");
        assert!(own.macs.total() > 0, "{kind}");
        let undecayed = ["points", "sigma", "near", "far", "bias"];
        for parameter in model.parameters() {
            if parameter.name.contains(".mixer.") {
                let last = parameter.name.rsplit('.').next().unwrap();
                let expected = !undecayed.contains(&last);
                assert_eq!(model.decays(&parameter), expected, "{}", parameter.name);
            }
        }
    }
}

/// The parameters whose gradient is missing, or not finite, or zero throughout.
fn idle(model: &Model, gradients: &Gradients) -> Vec<String> {
    let mut idle = Idle {
        gradients,
        names: Vec::new(),
        path: Vec::new(),
    };
    model.visit(&mut idle);
    idle.names
}

struct Idle<'a> {
    gradients: &'a Gradients,
    names: Vec<String>,
    path: Vec<String>,
}

impl ModuleVisitor for Idle<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.gradients);
        let learns = gradient.is_some_and(|gradient| {
            let largest: f32 = gradient.abs().max().into_scalar();
            largest.is_finite() && largest > 0.0
        });
        if !learns {
            self.names.push(self.path.join("."));
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

#[test]
fn every_kind_learns_with_all_its_parameters() {
    let device = Device::flex().autodiff();
    for attention in AttentionConfig::defaults() {
        let model = small(&attention).init(&device, Key::new(1)).unwrap();
        let logits = model.forward(images([32; 2], &device), Phase::Train(Key::new(3)));
        let gradients = logits.powi_scalar(2).sum().backward();
        let idle = idle(&model, &gradients);
        assert!(idle.is_empty(), "{}: {idle:?}", attention.kind());
    }
}

/// An evaluation does not depend on other passes or on the other image of the batch.
#[test]
fn an_evaluation_depends_on_the_image_alone() {
    let device = Device::flex();
    for attention in AttentionConfig::defaults() {
        let (kind, model) = (attention.kind(), build(&attention, 1));
        let both = images([32; 2], &device);
        let together = values(model.forward(both.clone(), Phase::Eval));
        assert_eq!(
            together,
            values(model.forward(both.clone(), Phase::Eval)),
            "{kind}"
        );
        let alone = values(model.forward(both.narrow(0, 1, 1), Phase::Eval));
        for (a, b) in together[3..].iter().zip(&alone) {
            assert!((a - b).abs() < 1e-4, "{kind}: {together:?} {alone:?}");
        }
    }
}

/// The weights of a dense model fit every kind, except the kind's own parameters.
#[test]
fn weights_of_another_kind_are_loaded_but_for_the_mechanism() {
    let dense = StateDict::from_model(&build(&AttentionConfig::dense(), 1)).unwrap();
    for attention in others() {
        let kind = attention.kind();
        let fresh = build(&attention, 2);
        let own = StateDict::from_model(&fresh).unwrap();
        let of_mixer: Vec<String> = fresh
            .parameters()
            .into_iter()
            .map(|parameter| parameter.name)
            .filter(|name| name.contains(".attn.mixer."))
            .collect();
        let strict = fresh.clone().load(&dense, LoadOptions::default());
        if of_mixer.is_empty() {
            let (loaded, report) = strict.unwrap();
            assert!(report.fits(), "{kind}");
            assert_eq!(StateDict::from_model(&loaded).unwrap(), dense, "{kind}");
            continue;
        }
        let error = strict.unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(&format!("`{}` is missing", of_mixer[0])),
            "{message}"
        );
        let WeightsError::Incompatible { misfit, .. } = error else {
            panic!("{message}");
        };
        assert_eq!(misfit, Misfit::Mixers);

        let options = LoadOptions {
            reset_mixer: true,
            ..LoadOptions::default()
        };
        let (loaded, report) = fresh.load(&dense, options).unwrap();
        assert_eq!(
            report.names(Outcome::Reset).collect::<Vec<_>>(),
            of_mixer,
            "{kind}"
        );
        assert!(report.summary().contains(&format!("`{}`", of_mixer[0])));
        let loaded = StateDict::from_model(&loaded).unwrap();
        for (name, weight) in loaded.iter() {
            let expected = if name.contains(".mixer.") {
                &own
            } else {
                &dense
            };
            assert_eq!(Some(weight), expected.get(name), "{kind}: {name}");
        }
    }
}

/// Three tokens to a key are no three colours: weights of another ratio are not adapted as a first convolution is.
#[test]
fn weights_of_a_mechanism_are_not_taken_for_colours() {
    let of_ratio = |ratio| {
        AttentionConfig::MemoryCompressed(MemoryCompressedConfig {
            ratio,
            ..MemoryCompressedConfig::default()
        })
    };
    let three = StateDict::from_model(&build(&of_ratio(3), 1)).unwrap();
    let two = build(&of_ratio(2), 2);
    let error = two.load(&three, LoadOptions::default()).unwrap_err();
    let WeightsError::Incompatible { misfit, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(misfit, Misfit::Mixers);
}

/// A head of other classes and a new mechanism: the error names both.
#[test]
fn a_misfit_tells_which_parts_do_not_fit() {
    let dense = StateDict::from_model(&build(&AttentionConfig::dense(), 1)).unwrap();
    let Some(attention) = others().find(|attention| {
        small(attention).summary().stages[0]
            .attention
            .unwrap()
            .params
            > 0
    }) else {
        return;
    };
    let overrides = |classes| ModelOverrides {
        num_classes: Some(classes),
        ..ModelOverrides::default()
    };
    let config = small(&attention).with(&overrides(7)).unwrap();
    let model = config.init(&Device::flex(), Key::new(1)).unwrap();
    let misfit = |options| match model.clone().load(&dense, options).unwrap_err() {
        WeightsError::Incompatible { misfit, .. } => misfit,
        other => panic!("{other}"),
    };
    let strict = LoadOptions::default();
    let head = LoadOptions {
        reset_head: true,
        ..strict
    };
    let mixer = LoadOptions {
        reset_mixer: true,
        ..strict
    };
    assert_eq!(misfit(strict), Misfit::HeadAndMixers);
    assert_eq!(misfit(head), Misfit::Mixers);
    assert_eq!(misfit(mixer), Misfit::Head);
    let mut less = dense.clone();
    less.insert("norm.weight", TensorData::zeros::<f32, _>([99]));
    let error = model.load(&less, strict).unwrap_err();
    assert!(matches!(
        error,
        WeightsError::Incompatible {
            misfit: Misfit::Others,
            ..
        }
    ));
}
