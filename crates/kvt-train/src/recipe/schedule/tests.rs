#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;

use super::*;

/// `scripts/reference/dense_recipe.py` writes the rates of mmengine's schedulers, by update from 0.
#[test]
fn a_run_in_updates_has_the_rates_of_mmsegmentation() {
    let golden = include_str!("../../../tests/golden/dense/dense_recipe.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let cases = golden["poly"].as_object().unwrap();
    assert!(cases.len() >= 2);
    for (name, case) in cases {
        let number = |key: &str| case["config"][key].as_f64().unwrap();
        let mut plan = Plan::default();
        plan.optim.lr = number("lr");
        plan.optim.lr_batch = 0;
        plan.train.updates = number("updates") as u64;
        plan.schedule = ScheduleConfig {
            kind: ScheduleKind::Poly,
            power: number("power"),
            min_lr: number("min_lr"),
            per: SchedulePer::Step,
            counts: ScheduleCounts::Started,
            warmup_epochs: 0.0,
            warmup_updates: number("warmup_updates") as u64,
            warmup_ratio: number("warmup_ratio"),
            ..ScheduleConfig::default()
        };
        // The length of an epoch has no effect.
        for per_epoch in [7, 1263] {
            let schedule = Schedule::of(&plan, per_epoch);
            for (update, expected) in case["lr"].as_object().unwrap() {
                let (update, expected) = (update.parse().unwrap(), expected.as_f64().unwrap());
                let found = schedule.lr(update, (update / per_epoch) as u32);
                // mmengine multiplies up its rates update by update.
                let error = (found - expected).abs() / expected.abs().max(1e-12);
                assert!(error < 1e-6, "{name} {update}: {found} {expected}");
            }
        }
    }
}

/// A curve per epoch ends where the updates end, within an epoch.
#[test]
fn a_curve_per_epoch_ends_with_the_updates() {
    let mut plan = Plan::default();
    plan.train.updates = 25;
    plan.optim.lr_batch = 0;
    plan.schedule = ScheduleConfig {
        kind: ScheduleKind::Linear,
        min_lr: 0.0,
        warmup_epochs: 0.0,
        counts: ScheduleCounts::Started,
        ..ScheduleConfig::default()
    };
    let schedule = Schedule::of(&plan, 10);
    let share = |epoch: u32| schedule.lr(u64::from(epoch) * 10, epoch) / plan.optim.lr;
    assert!((share(1) - 0.6).abs() < 1e-12 && (share(2) - 0.2).abs() < 1e-12);
}
