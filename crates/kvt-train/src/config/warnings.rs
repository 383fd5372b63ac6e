//! Settings of a plan that are allowed but probably not intended.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::ModelConfig;

use super::Plan;
use crate::data::{DataKind, split_name};
use crate::task::{Freeze, summary_of};
use kvt_data::text::short;

/// Warnings about settings of a plan for a model that are allowed but probably not intended. `images` is the number of
/// training images, if it is known.
#[must_use]
pub fn warnings(plan: &Plan, model: &ModelConfig, images: Option<usize>) -> Vec<String> {
    let mut found = missing_data(plan);
    found.extend(dense_stages(plan, model));
    found.extend(frozen(plan));

    let shapes = plan.data.shapes.as_ref();
    let images = images.or_else(|| {
        let all = shapes.map(|shapes| shapes.classes * shapes.train_per_class)?;
        Some(match plan.data.subset {
            0 => all,
            subset => subset,
        })
    });
    let steps_per_epoch = images.map(|images| {
        let batches = plan.data.training_batches(plan.train.batch_size, images);
        batches.div_ceil(plan.train.accumulate) as f64
    });
    let all_epochs = plan.epochs().map_or(f64::INFINITY, f64::from);
    let all_steps = steps_per_epoch.map_or(f64::INFINITY, |steps| steps * all_epochs);
    let last_update = plan.last_update().map(|steps| steps as f64);
    let steps = last_update.map_or(all_steps, |last| all_steps.min(last));

    let too_long = |key: &str, warmup: f64| {
        format!(
            "the warm-up (`schedule.{key}` = {}) is not shorter than the run: the learning rate never reaches its full value",
            short(warmup)
        )
    };
    let updates = plan.schedule.warmup_updates as f64;
    if updates > 0.0 && updates >= steps {
        found.push(too_long("warmup_updates", updates));
    }
    let warmup = plan.schedule.warmup_epochs;
    let is_cut = steps_per_epoch.is_some_and(|per_epoch| warmup * per_epoch >= steps);
    let epochs = match plan.updates() {
        None => f64::from(plan.train.epochs),
        Some(_) => f64::INFINITY,
    };
    if warmup > 0.0 && (warmup >= epochs || is_cut) {
        found.push(too_long("warmup_epochs", warmup));
    }
    let span = 1.0 / (1.0 - plan.ema.decay);
    if plan.ema.decay > 0.0 && !plan.ema.warmup && span > steps {
        found.push(format!(
            "`ema.decay` = {} averages over {span:.0} updates, but the run has {steps}: the average stays near \
             the initial weights",
            short(plan.ema.decay)
        ));
    }
    found
}

/// Missing folders of splits, or a missing table of labels, for data that is not generated.
fn missing_data(plan: &Plan) -> Vec<String> {
    let data = &plan.data;
    let folders = match data.kind {
        DataKind::Shapes => Vec::new(),
        DataKind::Folder | DataKind::Tar if data.val_fraction == 0.0 && data.labels.is_empty() => {
            let split = |name| split_name(data.kind, &data.path, name).unwrap_or(name);
            [&data.train, &data.val]
                .map(|name| data.path.join(split(name)))
                .to_vec()
        }
        _ => vec![data.path.clone()],
    };
    let missing = folders
        .iter()
        .filter(|folder| !folder.is_dir())
        .map(|folder| format!("no folder `{}`, as `data.path` says", folder.display()));
    let table = data.path.join(&data.labels);
    let lacks_table = !data.labels.is_empty() && data.path.is_dir() && !table.is_file();
    let no_table =
        lacks_table.then(|| format!("no file `{}`, as `data.labels` says", table.display()));
    missing.chain(no_table).collect()
}

/// Settings that a frozen backbone makes useless.
fn frozen(plan: &Plan) -> Option<String> {
    if plan.init.weights.is_some() {
        return None;
    }
    let key = match plan.init.freeze {
        Freeze::Backbone => "`init.freeze` = \"backbone\"".to_owned(),
        Freeze::None if plan.lora.rank > 0 => format!("`lora.rank` = {}", plan.lora.rank),
        Freeze::None => return None,
    };
    Some(format!(
        "{key} without `init.weights`: the head is trained on the features of random weights"
    ))
}

/// Warnings of stages in which k-NN attention keeps every key, because `model.attention.neighbors` is at least their number.
#[must_use]
pub fn dense_stages(plan: &Plan, model: &ModelConfig) -> Vec<String> {
    let Some(AttentionConfig::Knn(knn)) = &plan.model.overrides.attention else {
        return Vec::new();
    };
    let counts = knn.neighbors.values();
    let summary = summary_of(plan, model);
    let stages = summary.attending().enumerate();
    // A single entry applies to all stages; a list has one entry per stage.
    stages
        .filter_map(|(at, stage)| match counts.get(at).or(counts.first())? {
            Neighbors::Count(count) if count.get() >= stage.keys => Some(format!(
                "`model.attention.neighbors` = {count} keeps each of the {} keys in `{}`: attention is dense \
                 there",
                stage.keys, stage.name
            )),
            _ => None,
        })
        .collect()
}
