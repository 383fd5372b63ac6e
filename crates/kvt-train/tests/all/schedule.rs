//! Learning rates of timm's scheduler under DeiT's habit, and of a published log.
//!
//! The file is written by `scripts/reference/schedule.py`.

use kvt_train::recipe::{Schedule, ScheduleConfig, ScheduleKind, SchedulePer};
use serde_json::Value;

use crate::support::{assert_each_close, manifest_dir};

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

fn golden() -> Value {
    let path = manifest_dir().join("tests/golden/schedule.json");
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
        per: SchedulePer::Epoch,
    }
}
