//! The model, and the weights that it starts from.

use std::path::Path;

use kvt_models::weights::ENDINGS;
use kvt_models::{ModelConfig, lacking};

use super::are_weights;
use crate::config::document::Checks;
use crate::config::problem::Problem;
use crate::config::suggest::closest;
use crate::config::{Plan, attention};
use crate::fetch::instead;
use crate::task::{Freeze, LoraConfig, ResetHead};

/// The model's name, what it has by default, and the weights that it starts from.
pub(super) fn model(plan: &mut Plan, checks: &mut Checks<'_>) {
    let names = kvt_models::names();
    let names = || names.iter().map(String::as_str);
    let name = plan.model.name.as_str();
    match checks.set_place("model.name") {
        None => {
            let example = names().next().unwrap_or_default();
            let help = format!("add `name = \"{example}\"` under `[model]`");
            checks.missing("model.name", &help);
        }
        Some(place) if !checks.refuses("model.name") && ModelConfig::by_name(name).is_err() => {
            let help = match (lacking(name), closest(name, names())) {
                (Some(reason), _) => reason.to_owned(),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => "`kvt models list` names them all".to_owned(),
            };
            let problem = Problem::new(place, format!("unknown model `{name}`"));
            checks.problems.push(problem.help(help));
        }
        Some(_) => {}
    }

    for section in ["model.attention", "model.class_attention"] {
        attention::keys(section, checks);
    }
    // Named models have dense attention and no dropout.
    let overrides = &mut plan.model.overrides;
    overrides.drop_path.get_or_insert(0.0);
    overrides.attn_drop.get_or_insert(0.0);
    overrides.attention.get_or_insert_default();

    let init = &mut plan.init;
    if let Some(path) = &init.weights
        && !(are_weights(path) || may_be_run(path))
    {
        let value = path.display().to_string();
        let expected = format!(
            "a {ENDINGS} file, the folder of a run (`./NAME`), or a name of `kvt models list --weights`{}",
            instead(&value)
        );
        checks.refuse("init.weights", &value, &expected);
    }
    if init.weights.is_none() {
        init.reset_head = ResetHead::IfOther(false);
        init.reset_mixer = false;
    }
}

/// Whether a path can be that of a run's folder: no single word, none of timm's names, and without an ending of letters. The file system
/// is not asked: another run of the same sweep may be about to make it, and it may be gone when this run is read.
fn may_be_run(path: &Path) -> bool {
    let is_path = path.components().count() > 1 && !path.starts_with("timm");
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    is_path && (ending.is_empty() || ending.contains(|letter: char| letter.is_ascii_digit()))
}

/// `[lora]`.
pub(super) fn lora(plan: &mut Plan, checks: &mut Checks<'_>) {
    let lora = &mut plan.lora;
    for key in ["lora.alpha", "lora.layers"] {
        let help = "add `--set lora.rank=8` (with `kvt finetune`, `--lora 8`) or `rank = 8` under `[lora]`, or leave it out";
        checks.needs(key, "lora.rank", help);
    }
    if lora.rank == 0 {
        *lora = LoraConfig::default();
        return;
    }
    checks.by_default("lora.alpha", &mut lora.alpha, 2.0 * lora.rank as f64);
    if plan.init.freeze != Freeze::None {
        checks.conflict(
            "lora.rank",
            "`lora.rank` adapts the backbone, which `init.freeze` leaves as it is",
            "set `init.freeze = \"none\"`: the weights that are adapted do not change in any case",
        );
    }
}
