//! Settings that conflict with DINO, checked before anything is created.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::{ModelConfig, StageSummary, Summary};

use crate::config::Plan;
use crate::recipe::DistillKind;
use crate::task::{Conflict, Freeze};

/// All conflicts.
pub(crate) fn check(plan: &Plan) -> Vec<Conflict> {
    let mixed = "`[mix]` mixes images with their labels, which `task = \"dino\"` does not use";
    let mixed = Conflict::of([Conflict::of_mixing(plan, mixed.to_owned())]);
    let keys = [
        (
            plan.distill.kind != DistillKind::None,
            "distill.kind",
            "`task = \"dino\"` has a teacher already: the average of the student",
            "set `distill.kind = \"none\"`",
        ),
        (
            plan.ema.decay > 0.0,
            "ema.decay",
            "`task = \"dino\"` keeps an average already: the teacher",
            "set `ema.decay = 0.0`; `dino.momentum_teacher` says how fast the teacher follows",
        ),
        (
            plan.init.freeze != Freeze::None,
            "init.freeze",
            "`task = \"dino\"` trains the backbone, which is frozen",
            "set `init.freeze = \"none\"`",
        ),
        (
            plan.lora.rank > 0,
            "lora.rank",
            "`task = \"dino\"` trains the backbone itself, and its teacher with it",
            "set `lora.rank = 0`",
        ),
        (
            plan.model.overrides.in_chans == Some(4),
            "model.in_chans",
            "`task = \"dino\"` solarises views, which Pillow does not do to images with alpha",
            "take 1 or 3 channels",
        ),
        (
            plan.model
                .overrides
                .img_size
                .is_some_and(|size| !size.is_square()),
            "model.img_size",
            "`task = \"dino\"` crops square views",
            "give one number for height and width",
        ),
    ];
    let mut found: Vec<Conflict> = mixed.chain(Conflict::of(keys)).collect();
    if plan.dino.local_views > 0 {
        found.extend(local_size(plan));
    }
    found
}

/// A conflict between the model and local views.
fn local_size(plan: &Plan) -> Option<Conflict> {
    // Errors of the model itself are reported elsewhere.
    let model = plan.model.config(None).ok()?;
    let side = plan.dino.local_size;
    if side == model.img_size().side() {
        return None;
    }
    let help = "take another `dino.local_size`, another model, or `dino.local_views = 0`";
    let refused = |reason: String| {
        let name = model.name();
        let message = format!("`{name}` does not support local views of {side} pixels: {reason}");
        Some(Conflict::new("dino.local_size", message, help))
    };
    let mut section = plan.model.clone();
    section.overrides.img_size = Some(side.into());
    let local = match section.config(None) {
        Ok(local) => local,
        Err(error) => return refused(error.to_string()),
    };
    // As in `Model::check_size`.
    let stages = model.summary().stages;
    let is_fixed = |stage: &&StageSummary| stage.attention.is_some_and(|found| found.fixes_keys);
    if let Some(stage) = stages.iter().find(is_fixed) {
        let reason = "has weights for the number of tokens";
        return refused(format!("the attention in `{}` {reason}", stage.name));
    }
    // A model created for small images has smaller windows, but a model applied to them keeps its windows and pads the images.
    if matches!(model, ModelConfig::Swin(_)) {
        return None;
    }
    too_many_neighbors(plan, &local.summary())
}

/// A count of neighbours that exceeds the tokens of the local views.
fn too_many_neighbors(plan: &Plan, local: &Summary) -> Option<Conflict> {
    let Some(AttentionConfig::Knn(knn)) = &plan.model.overrides.attention else {
        return None;
    };
    let counts = knn.neighbors.values();
    let mut stages = local.attending().enumerate();
    stages.find_map(|(at, stage)| match counts.get(at).or(counts.first())? {
        Neighbors::Count(count) if count.get() > stage.keys => {
            let message = format!(
                "`model.attention.neighbors` = {count} keys of the {} that local views of {} pixels have in `{}`",
                stage.keys, plan.dino.local_size, stage.name
            );
            let help = "give a share of the keys, such as `neighbors = 0.5`, which suits both sizes of views";
            Some(Conflict::new("model.attention.neighbors", message, help))
        }
        _ => None,
    })
}
