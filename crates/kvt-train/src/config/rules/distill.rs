//! Teachers.

use kvt_models::ModelConfig;

use super::are_weights;
use crate::config::Plan;
use crate::config::document::Checks;
use crate::recipe::{DistillConfig, DistillKind};

/// A teacher, or its logits.
pub(super) fn distillation(plan: &mut Plan, checks: &mut Checks<'_>) {
    let distill = &mut plan.distill;
    if distill.kind == DistillKind::None {
        for key in ["distill.teacher", "distill.teacher_model", "distill.logits"] {
            let help = "add `kind = \"soft\"` or `\"hard\"` under `[distill]`, or `\"none\"`";
            checks.needs(key, "distill.kind", help);
        }
        *distill = DistillConfig::default();
        return;
    }
    if distill.kind == DistillKind::Hard {
        let default = DistillConfig::default();
        distill.temperature = default.temperature;
        distill.divisor = default.divisor;
    }
    match (&distill.teacher, &distill.logits) {
        (None, None) => {
            let help = "add `teacher = \"RUN\"` under `[distill]`, the folder of a run, or `logits = \"FILE\"`, \
                        logits that a teacher has given before";
            checks.missing("distill.teacher", help);
        }
        (Some(_), Some(_)) => checks.conflict(
            "distill.logits",
            "there are both a teacher and saved logits",
            "remove `distill.teacher` or `distill.logits`",
        ),
        (None, Some(_)) if plan.mix.is_on() => checks.conflict(
            "distill.logits",
            "saved logits are of images as they are, but `[mix]` mixes them",
            "set `mix.mixup` and `mix.cutmix` to 0, or take a `distill.teacher`",
        ),
        _ => {}
    }
    if let Some(logits) = &distill.logits
        && logits
            .extension()
            .is_none_or(|ending| ending != "safetensors")
    {
        let value = logits.display().to_string();
        checks.refuse("distill.logits", &value, "a `.safetensors` file");
    }
    teacher_model(distill, checks);
}

/// A weight file does not contain the model that it is for; the folder of a run does.
fn teacher_model(distill: &DistillConfig, checks: &mut Checks<'_>) {
    let key = "distill.teacher_model";
    match (&distill.teacher, &distill.teacher_model) {
        (Some(path), None) if are_weights(path) => {
            let help = "add `teacher_model = \"NAME\"` under `[distill]`: the model that the weights are for";
            checks.missing(key, help);
        }
        (Some(path), Some(name)) if are_weights(path) => {
            if ModelConfig::by_name(name).is_err() {
                let expected = "a model's name, as `kvt models list` has them";
                checks.refuse(key, &format!("{name:?}"), expected);
            }
        }
        (_, Some(_)) => checks.conflict(
            key,
            "a model is named, but `distill.teacher` does not name a file of weights",
            "remove it, or let `distill.teacher` be a `.safetensors` or `.pth` file",
        ),
        (_, None) => {}
    }
}
