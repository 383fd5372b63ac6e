//! Loss, optimizer, schedule, average, and the mixing of images.

use crate::config::Plan;
use crate::config::document::Checks;
use crate::engine::TrainConfig;
use crate::recipe::mix::MixConfig;
use crate::recipe::{ClassWeights, EmaReport, LossKind, ScheduleConfig};
use crate::task::TaskKind;

/// The least and the largest weight of a class: a loss is divided by those of its labels and multiplied by those of other classes, and
/// `f32` must hold the ratios.
const CLASS_WEIGHTS: [f64; 2] = [1e-18, 1e18];

/// `[loss]`.
pub(super) fn loss(plan: &mut Plan, checks: &mut Checks<'_>) {
    let loss = &mut plan.loss;
    if plan.task == TaskKind::MultiLabel {
        checks.by_default("loss.kind", &mut loss.kind, LossKind::Bce);
        checks.by_default("loss.label_smoothing", &mut loss.label_smoothing, 0.0);
    }
    if loss.kind == LossKind::CrossEntropy {
        loss.bce_threshold = None;
        loss.bce_sum = false;
    }
    class_weights(plan, checks);
}

/// Weights of classes, which are positive, and are for cross-entropy with labels.
fn class_weights(plan: &Plan, checks: &mut Checks<'_>) {
    let (key, [least, most]) = ("loss.class_weights", CLASS_WEIGHTS);
    let weights = match &plan.loss.class_weights {
        ClassWeights::None => return,
        ClassWeights::Inverse => &[],
        ClassWeights::Each(weights) => weights.as_slice(),
    };
    if plan.task != TaskKind::Classify || plan.loss.kind != LossKind::CrossEntropy {
        let help = if plan.task == TaskKind::Classify {
            "leave it out, or take `loss.kind = \"cross-entropy\"`; `data.balance` is for any loss"
        } else {
            "leave it out"
        };
        checks.conflict(
            key,
            "`loss.class_weights` is for the cross-entropy of a classifier",
            help,
        );
    } else if let Some((class, wrong)) = weights
        .iter()
        .enumerate()
        .find(|(_, weight)| !(least..=most).contains(*weight))
    {
        let expected =
            format!("a weight from {least:e} to {most:e} for class {class}, counted from 0");
        checks.refuse(key, &format!("{wrong:?}"), &expected);
    }
}

/// Optimizer, schedule, average, and the mixing of images.
pub(super) fn recipe(plan: &mut Plan, checks: &mut Checks<'_>) {
    let optim = &mut plan.optim;
    let (betas, eps, momentum) = optim.name.defaults();
    checks.by_default("optim.betas", &mut optim.betas, betas);
    checks.by_default("optim.eps", &mut optim.eps, eps);
    checks.by_default("optim.momentum", &mut optim.momentum, momentum);
    let clips = optim.clips();
    let mut clips = clips.iter().filter(|(_, limit, _)| *limit > 0.0);
    if let Some((first, ..)) = clips.next() {
        for (key, limit, _) in clips {
            let expected =
                format!("0 beside `optim.{first}`, since gradients are clipped in one way");
            checks.refuse(&format!("optim.{key}"), &format!("{limit:?}"), &expected);
        }
    }

    let (schedule, train) = (&mut plan.schedule, &mut plan.train);
    let counts = schedule.per.counts();
    checks.by_default("schedule.counts", &mut schedule.counts, counts);
    let defaults = ScheduleConfig::default();
    if schedule.warmup_updates > 0 {
        schedule.warmup_epochs = 0.0;
        schedule.warmup_lr = defaults.warmup_lr;
        schedule.warmup_prefix = false;
        schedule.warmup_closed = false;
    } else {
        schedule.warmup_ratio = defaults.warmup_ratio;
    }
    if train.updates > 0 {
        train.epochs = TrainConfig::default().epochs;
        schedule.cooldown_epochs = 0;
    }
    if train.eval_every_updates > 0 {
        train.eval_every = 0;
    }

    let ema = &mut plan.ema;
    let is_kept = ema.decay > 0.0;
    ema.warmup &= is_kept;
    if ema.report == EmaReport::Ema && !is_kept && !checks.refuses("ema.decay") {
        let message = "`ema.report` is \"ema\", but the run keeps no average";
        let help = "set `ema.decay` above 0, or `report = \"raw\"`";
        checks.conflict("ema.report", message, help);
    }
    if !plan.mix.is_on() {
        plan.mix = MixConfig::default();
    }
}
