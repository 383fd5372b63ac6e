//! Learning rates of timm's scheduler as DeiT uses it, and of a published log.
//!
//! The file is written by `scripts/reference/schedule.py`.

use kvt_train::recipe::{
    Schedule, ScheduleConfig, ScheduleCounts, ScheduleKind, SchedulePer, cosine,
};
use serde_json::Value;

use crate::support::{assert_each_close, crates_dir};

#[test]
fn rates_per_epoch_are_deits() {
    let golden = &golden()["epochs"];
    let rates = numbers(&golden["lr"]);
    let epochs = u32::try_from(rates.len()).unwrap();
    let schedule = per_epoch(golden, epochs);
    // The step must not matter.
    let found: Vec<f64> = (0..epochs)
        .map(|epoch| schedule.lr(u64::from(epoch) * 7, epoch))
        .collect();
    assert_each_close("epoch", &found, &rates, 1e-12);
}

#[test]
fn rates_per_step_are_timms() {
    let golden = &golden()["steps"];
    let rates = numbers(&golden["lr"]);
    // Four steps per epoch, so that the warm-up ends within one.
    let epochs = u32::try_from(rates.len()).unwrap() / 4;
    let plan = ScheduleConfig {
        per: SchedulePer::Step,
        counts: ScheduleCounts::Started,
        warmup_epochs: golden["config"]["warmup"].as_f64().unwrap() / 4.0,
        ..plan(&golden["config"])
    };
    let lr = golden["config"]["lr"].as_f64().unwrap();
    let schedule = Schedule::new(plan, lr, 4, epochs);
    let found: Vec<f64> = (0..u64::from(epochs) * 4)
        .map(|step| schedule.lr(step, u32::try_from(step / 4).unwrap()))
        .collect();
    assert_each_close("step", &found, &rates, 1e-12);
    // The cosine would rise again.
    let min = golden["config"]["min_lr"].as_f64().unwrap();
    for late in [0, 1, 100] {
        let step = u64::from(epochs) * 4 + late;
        assert_each_close("end", &[schedule.lr(step, epochs)], &[min], 1e-12);
    }
}

#[test]
fn rates_are_those_of_the_published_log() {
    let golden = golden();
    let schedule = per_epoch(&golden["epochs"], 300);
    let published = golden["published"].as_object().unwrap();
    assert_eq!(published.len(), 16);
    for (epoch, rate) in published {
        let found = schedule.lr(0, epoch.parse().unwrap());
        assert_each_close(epoch, &[found], &[rate.as_f64().unwrap()], 1e-12);
    }
}

/// Every kind, with and without warm-up prefix, to the end of the cool-down, with both ways of counting: timm's `step` and
/// `step_update`, called before and after their epoch or update.
#[test]
fn each_kind_is_timms_by_either_way_of_counting() {
    const PER_EPOCH: u64 = 4;
    let golden = golden();
    let kinds = golden["kinds"].as_object().unwrap();
    assert_eq!(kinds.len(), 10);
    for (case, golden) in kinds {
        let settings = &golden["config"];
        let number = |name: &str| settings[name].as_f64().unwrap();
        let epochs = number("epochs") as u32;
        let all = epochs + number("cooldown") as u32;
        for (per, counts, rates) in [
            (SchedulePer::Epoch, ScheduleCounts::Started, "started"),
            (SchedulePer::Epoch, ScheduleCounts::Finished, "finished"),
            (SchedulePer::Step, ScheduleCounts::Started, "updates"),
            (
                SchedulePer::Step,
                ScheduleCounts::Finished,
                "updates_finished",
            ),
        ] {
            let config = ScheduleConfig {
                kind: serde_json::from_value(settings["kind"].clone()).unwrap(),
                warmup_prefix: settings["warmup_prefix"].as_bool().unwrap(),
                step_epochs: number("step_epochs"),
                step_rate: number("step_rate"),
                power: number("power"),
                per,
                counts,
                ..plan(settings)
            };
            let schedule = Schedule::new(config, number("lr"), PER_EPOCH, epochs);
            let lr = |step: u64| schedule.lr(step, u32::try_from(step / PER_EPOCH).unwrap());
            let apart = match per {
                SchedulePer::Epoch => PER_EPOCH,
                SchedulePer::Step => 1,
            };
            let steps = u64::from(all) * PER_EPOCH / apart;
            let found: Vec<f64> = (0..steps).map(|number| lr(number * apart)).collect();
            let what = format!("{case}, {rates}");
            assert_each_close(&what, &found, &numbers(&golden[rates]), 1e-12);
        }
    }
}

/// The cosine ends with the run; a cool-down keeps its final value.
#[test]
fn weight_decay_follows_half_a_cosine() {
    let config = ScheduleConfig {
        per: SchedulePer::Step,
        counts: ScheduleCounts::Started,
        weight_decay_end: Some(0.4),
        ..ScheduleConfig::default()
    };
    let schedule = Schedule::new(config.clone(), 1.0, 5, 2);
    let found = [0, 5, 10, 12].map(|step| schedule.weight_decay(0.04, step, 0));
    assert_each_close("weight decay", &found, &[0.04, 0.22, 0.4, 0.4], 1e-12);
    // DINO's table: `final + (base - final) / 2 (1 + cos(pi i / n))`.
    let table = |i: f64| 0.4 + 0.5 * (0.04 - 0.4) * (1.0 + (std::f64::consts::PI * i / 10.0).cos());
    let found = [3, 7].map(|step| schedule.weight_decay(0.04, step, 0));
    assert_each_close("DINO", &found, &[table(3.0), table(7.0)], 1e-12);

    let per_epoch = ScheduleConfig {
        per: SchedulePer::Epoch,
        counts: ScheduleCounts::Finished,
        ..config
    };
    let schedule = Schedule::new(per_epoch, 1.0, 5, 2);
    let found = [0, 1, 2, 3].map(|epoch| schedule.weight_decay(0.04, 99, epoch));
    assert_each_close("per epoch", &found, &[0.04, 0.04, 0.22, 0.4], 1e-12);
    let constant = Schedule::new(ScheduleConfig::default(), 1.0, 5, 2);
    assert_eq!(constant.weight_decay(0.05, 7, 1), 0.05);

    assert_each_close("teacher", &[cosine(0.996, 1.0, 0.5)], &[0.998], 1e-12);
    assert_eq!([cosine(3.0, 1.0, -1.0), cosine(3.0, 1.0, 2.0)], [3.0, 1.0]);
}

fn golden() -> Value {
    let path = crates_dir().join("kvt-train/tests/golden/schedule.json");
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap();
    list.iter().map(|number| number.as_f64().unwrap()).collect()
}

fn per_epoch(golden: &Value, epochs: u32) -> Schedule {
    let lr = golden["config"]["lr"].as_f64().unwrap();
    Schedule::new(plan(&golden["config"]), lr, 7, epochs)
}

fn plan(config: &Value) -> ScheduleConfig {
    let number = |name: &str| config[name].as_f64().unwrap();
    ScheduleConfig {
        kind: ScheduleKind::Cosine,
        warmup_epochs: number("warmup"),
        warmup_lr: number("warmup_lr"),
        min_lr: number("min_lr"),
        ..ScheduleConfig::default()
    }
}
