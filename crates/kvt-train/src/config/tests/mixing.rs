//! Rules of `[mix]`, `[loss]`, `[distill]` and repeated augmentation.

use super::*;
use crate::recipe::mix::MixConfig;
use crate::recipe::{DistillConfig, DistillDivisor};

#[test]
fn what_is_off_has_its_defaults() {
    let plan = plan_of(
        SMALL,
        &[
            "mix.prob=0.5",
            "mix.mode=elem",
            "data.replicas=3",
            "loss.bce_sum=true",
            "loss.bce_threshold=0.1",
        ],
    )
    .unwrap();
    assert_eq!(plan.mix, MixConfig::default());
    assert_eq!(plan.data.replicas, 1);
    assert_eq!((plan.loss.bce_sum, plan.loss.bce_threshold), (false, None));

    let base = "[distill]\nkind = \"soft\"\nteacher = \"runs/teacher\"\n";
    let text = format!("{SMALL}{base}");
    assert_eq!(
        plan_of(&text, &[]).unwrap().distill.teacher,
        Some("runs/teacher".into())
    );
    let off = plan_of(&text, &["distill.kind=none"]).unwrap();
    assert_eq!(off.distill, DistillConfig::default());
    let hard = [
        "distill.kind=hard",
        "distill.temperature=2",
        "distill.divisor=legacy",
    ];
    let hard = plan_of(&text, &hard).unwrap().distill;
    assert_eq!(
        (hard.temperature, hard.divisor),
        (1.0, DistillDivisor::Batch)
    );
}

#[test]
fn teachers_that_say_too_little_or_too_much() {
    assert_snapshot!(error_of(SMALL, &["distill.teacher=run", "distill.logits=l.safetensors"]), @r#"
    --set distill.logits=l.safetensors: `distill.logits` is set, but `distill.kind` is not
      help: add `kind = "soft"` or `"hard"` under `[distill]`, or `"none"`

    --set distill.teacher=run: `distill.teacher` is set, but `distill.kind` is not
      help: add `kind = "soft"` or `"hard"` under `[distill]`, or `"none"`

    2 problems in the configuration
    "#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft"]), @r#"
    configs/x.toml: missing key `distill.teacher`
      help: add `teacher = "RUN"` under `[distill]`, the folder of a run, or `logits = "FILE"`, logits that a teacher has given before
    "#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.teacher=w.pth"]), @r#"
    configs/x.toml: missing key `distill.teacher_model`
      help: add `teacher_model = "NAME"` under `[distill]`: the model that the weights are for
    "#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.teacher=w.pth", "distill.teacher_model=deit_tiny"]), @r#"--set distill.teacher_model=deit_tiny: invalid value `"deit_tiny"` for `distill.teacher_model`: expected a model's name, as `kvt models list` has them"#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.teacher=run", "distill.teacher_model=deit_tiny_patch16_224"]), @r#"
    --set distill.teacher_model=deit_tiny_patch16_224: a model is named, but `distill.teacher` does not name a file of weights
      help: remove it, or let `distill.teacher` be a `.safetensors` or `.pth` file
    "#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.teacher=run", "distill.logits=l.safetensors"]), @r#"
    --set distill.logits=l.safetensors: there are both a teacher and saved logits
      help: remove `distill.teacher` or `distill.logits`
    "#);
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.logits=l.npy"]), @"--set distill.logits=l.npy: invalid value `l.npy` for `distill.logits`: expected a `.safetensors` file");
    assert_snapshot!(error_of(SMALL, &["distill.kind=soft", "distill.logits=l.safetensors", "mix.mixup=0.2"]), @r#"
    --set distill.logits=l.safetensors: saved logits are of images as they are, but `[mix]` mixes them
      help: set `mix.mixup` and `mix.cutmix` to 0, or take a `distill.teacher`
    "#);
}

#[test]
fn each_replica_has_its_micro_batches() {
    let sets = ["data.repeats=3", "data.replicas=4"];
    assert_snapshot!(error_of(SMALL, &sets), @"--set data.replicas=4: invalid value `4` for `data.replicas`: expected a divisor of `train.accumulate`, 1");
    for accumulate in ["train.accumulate=4", "train.accumulate=8"] {
        let sets = [&sets[..], &[accumulate]].concat();
        assert_eq!(plan_of(SMALL, &sets).unwrap().data.replicas, 4);
    }
}

/// 5000 generated images: with repeats rounded down to a multiple of 256, 4864 for one replica and 4 x 1216 for four.
#[test]
fn repeats_count_in_the_warnings() {
    let warned = |sets: &[&str]| {
        let plan = plan_of(SMALL, sets).unwrap();
        let model = plan.model.config(None).unwrap();
        !warnings(&plan, &model, None).is_empty()
    };
    // 76 updates per epoch instead of 78: the warm-up of 5 epochs takes 380.
    assert!(warned(&["data.repeats=3", "train.max_steps=380"]));
    assert!(!warned(&["data.repeats=3", "train.max_steps=381"]));
    // 19 micro-batches for each of four replicas: again 76, in 19 updates.
    let dealt = ["data.repeats=3", "data.replicas=4", "train.accumulate=4"];
    assert!(warned(&[&dealt[..], &["train.max_steps=95"]].concat()));
    assert!(!warned(&[&dealt[..], &["train.max_steps=96"]].concat()));
}
