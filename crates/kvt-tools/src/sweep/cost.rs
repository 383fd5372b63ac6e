//! The estimated cost of a cell, before it is trained.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use kvt_models::ImgSize;

use super::{Cell, Found, State, SweepError};
use crate::bench::{ModelCase, Rounds, step};
use kvt_data::{DataConfig, DataError, Split, open_part};
use kvt_train::config::Plan;
use kvt_train::device;
use kvt_train::error::TrainError;
use kvt_train::task::TaskKind;

/// Pixels of the images in a measured step: 128 images of 32 px are a whole batch, and 16 of 224 px need little memory.
const PIXELS: usize = 16 * 224 * 224;

/// The cost of an update in forward passes: a backward pass costs twice as much as a forward pass.
const UPDATE: f64 = 3.0;

/// The total cost of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Training images per epoch.
    pub images: u64,
    /// Epochs.
    pub epochs: u32,
    /// Multiply-accumulate operations of training and evaluations.
    pub macs: f64,
    /// Estimated seconds that are left.
    pub left: f64,
    /// Images that pass through the model in updates of a whole run; one of DINO counts as several.
    trained: f64,
    /// The same in evaluations.
    evaluated: f64,
}

/// The costs of cells, in their order: counts their images and estimates the time that is left. A row with finished cells is
/// estimated from their time; for any other row, a step and a forward pass of its model are measured. Nothing is trained. Before a
/// model is measured, `progress` receives the first row that has it, how many models are measured, and how many there are.
///
/// # Errors
/// If the data of a cell cannot be opened, or its model or device cannot be used.
pub fn costs(
    cells: &[Cell],
    found: &[Found],
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<Vec<Cost>, SweepError> {
    let mut counts = BTreeMap::new();
    let of_cells = cells.iter().map(|cell| cost(&cell.plan, &mut counts));
    let mut costs = of_cells.collect::<Result<Vec<_>, _>>()?;
    let rates: Vec<(&str, f64)> = cells
        .iter()
        .zip(found)
        .zip(&costs)
        .filter(|((_, found), _)| found.state == State::Finished && found.seconds > 0.0)
        .map(|((cell, found), cost)| (cell.name.as_str(), found.seconds / cost.macs))
        .collect();
    let mut models: Vec<(Measured, &str, Vec<_>)> = Vec::new();
    for ((cell, found), cost) in cells.iter().zip(found).zip(&mut costs) {
        let share = match found.state {
            State::Finished | State::Known | State::Crashed(_) | State::Foreign(_) => continue,
            State::Begun(epochs) => 1.0 - f64::from(epochs) / f64::from(cost.epochs.max(1)),
            State::Missing => 1.0,
        };
        let own = rates.iter().filter(|(name, _)| *name == cell.name);
        if let Some(rate) = median(own.map(|(_, rate)| *rate).collect()) {
            cost.left = share * rate * cost.macs;
            continue;
        }
        let model = Measured::of(&cell.plan)?;
        match models.iter_mut().find(|(known, ..)| *known == model) {
            Some((.., costs)) => costs.push((cost, share)),
            None => models.push((model, cell.name.as_str(), vec![(cost, share)])),
        }
    }
    let count = models.len();
    for (done, (model, name, costs)) in models.into_iter().enumerate() {
        progress(name, done, count);
        let [update, forward] = model.seconds()?;
        for (cost, share) in costs {
            cost.left = share * (cost.trained * update + cost.evaluated * forward);
        }
    }
    Ok(costs)
}

/// The cost of a plan; `counts` remembers the sizes of data sets.
fn cost(plan: &Plan, counts: &mut BTreeMap<String, [u64; 2]>) -> Result<Cost, TrainError> {
    let data = &plan.data;
    let key = format!("{data:?}");
    let [train, val] = match counts.get(&key) {
        Some(known) => *known,
        None => *counts.entry(key).or_insert(count(data)?),
    };
    let images = plan.train.batch_size * plan.train.accumulate;
    let per_epoch = train.div_ceil(images as u64).max(1);
    let whole = plan.epochs_of(per_epoch);
    let all = per_epoch * u64::from(whole);
    let updates = plan.last_update().map_or(all, |last| all.min(last));
    // `train.max_steps` may leave out epochs.
    let epochs = u32::try_from(updates.div_ceil(per_epoch)).map_or(whole, |begun| begun.min(whole));
    // One is always at the end.
    let evaluations = match (plan.train.eval_every, plan.train.eval_every_updates) {
        (0, 0) => 1,
        (0, every) => updates.div_ceil(every),
        (every, _) => u64::from(epochs.div_ceil(every)),
    };
    let trained = match plan.updates() {
        Some(_) => updates * images as u64,
        // The last update of an epoch may have fewer images.
        None => {
            let begun = updates % per_epoch * images as u64;
            updates / per_epoch * train + begun.min(train)
        }
    };
    let trained = trained as f64 * views(plan);
    let evaluated = evaluations as f64 * val as f64;
    // The classes of pixels or objects are not known before the images are there, and cost little.
    let (_, macs) = ModelCase::of("", plan, 1)?.size();
    let images = UPDATE * trained + evaluated;
    Ok(Cost {
        images: train,
        epochs,
        macs: macs as f64 * images,
        left: 0.0,
        trained,
        evaluated,
    })
}

/// The images of both splits.
fn count(data: &DataConfig) -> Result<[u64; 2], DataError> {
    if let Some(shapes) = data.shapes.as_ref().filter(|_| !data.path.exists()) {
        // They are generated when the first run begins.
        let images = |of_a_class: usize| (shapes.classes * of_a_class) as u64;
        let train = images(shapes.train_per_class);
        let used = match data.subset {
            0 => train,
            subset => train.min(subset as u64),
        };
        return Ok([used, images(shapes.val_per_class)]);
    }
    let of = |split| open_part(data, split, None).map(|part| part.samples.len() as u64);
    Ok([of(Split::Train)?, of(Split::Val)?])
}

/// What the time of a step depends on.
#[derive(Debug, PartialEq)]
struct Measured {
    case: ModelCase,
    device: String,
}

impl Measured {
    fn of(plan: &Plan) -> Result<Self, TrainError> {
        let mut same = plan.clone();
        // Whatever the seed, a step costs the same.
        same.seed = 0;
        same.run = Plan::default().run;
        let mut case = ModelCase::of("", &same, plan.train.batch_size)?;
        let (height, width) = case.sides();
        // A batch norm of a single image has one value in the head of segmentation.
        let least = 1 + usize::from(plan.task == TaskKind::Segment);
        let most = (PIXELS / (height * width).max(1)).max(least);
        case.batch = case.batch.clamp(least, most);
        Ok(Self {
            case,
            device: plan.train.device.clone(),
        })
    }

    /// Seconds of an image in an update and in a forward pass. The first round warms up.
    fn seconds(&self) -> Result<[f64; 2], SweepError> {
        let device = device::resolve(&self.device)?;
        let cases = std::slice::from_ref(&self.case);
        let rounds = Rounds {
            warmup: 1,
            timed: 1,
        };
        let stop = AtomicBool::new(false);
        let measured = step(cases, &device.device, rounds, &stop, |_| ())?;
        let images = self.case.batch as f64;
        let seconds = |ms: f64| ms / 1e3 / images;
        let first = measured.first();
        Ok(first.map_or([f64::NAN; 2], |one| {
            [seconds(one.step_ms), seconds(one.forward_ms)]
        }))
    }
}

/// The cost of a training image, in updates by a whole image.
fn views(plan: &Plan) -> f64 {
    match plan.task {
        TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Segment | TaskKind::Detect => 1.0,
        TaskKind::Dino => {
            // Student and teacher see two global views; only the student sees the local ones.
            let size = plan.model.overrides.img_size.map_or(224, ImgSize::side) as f64;
            let share = (plan.dino.local_size as f64 / size).powi(2);
            2.0 * (UPDATE + 1.0) / UPDATE + plan.dino.local_views as f64 * share
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kvt_train::config::Document;

    use super::*;

    /// 60 training images in updates of 8, the last of each epoch of 4, and 10 validation images.
    const TEXT: &str = r#"
[model]
name = "deit_tiny_patch16_224"
[data]
kind = "shapes"
path = "nowhere"
[data.shapes]
classes = 2
train_per_class = 30
val_per_class = 5
[schedule]
warmup_epochs = 1
[train]
epochs = 5
batch_size = 8
"#;

    /// A run ends with the first of its epochs and `train.max_steps`, and with an evaluation.
    #[test]
    fn what_is_trained_and_evaluated_is_counted() {
        let cases = [
            ("", (5, 300.0, 50.0)),
            ("train.max_steps=12", (2, 92.0, 20.0)),
            ("train.max_steps=100", (5, 300.0, 50.0)),
            ("train.eval_every=0", (5, 300.0, 10.0)),
            ("train.eval_every=2", (5, 300.0, 30.0)),
            ("train.eval_every=10", (5, 300.0, 10.0)),
            ("train.eval_every_updates=9", (5, 300.0, 50.0)),
            (
                "train.eval_every_updates=5 train.max_steps=12",
                (2, 92.0, 30.0),
            ),
        ];
        for (set, expected) in cases {
            let words: Vec<String> = set.split_whitespace().map(str::to_owned).collect();
            let document = Document::of_words("test", TEXT.to_owned(), &words).unwrap();
            let found = cost(&document.plan().unwrap(), &mut BTreeMap::new()).unwrap();
            let counted = (found.epochs, found.trained, found.evaluated);
            assert_eq!(counted, expected, "{set}");
        }
    }
}
