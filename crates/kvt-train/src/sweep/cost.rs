//! The estimated cost of a cell, before it is trained.

use std::collections::BTreeMap;

use super::{Cell, Found, State};
use crate::config::Plan;
use crate::data::{Split, open_part};
use crate::task::{TaskKind, model_config};

/// The cost of an update in forward passes: a backward pass costs twice as much as a forward pass.
const UPDATE: f64 = 3.0;

/// The total cost of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Training images per epoch, if known.
    pub images: Option<u64>,
    /// Epochs.
    pub epochs: u32,
    /// Multiply-accumulate operations of training and evaluations; `None` if `images` is unknown.
    pub macs: Option<f64>,
    /// Remaining seconds of training, estimated from finished cells: without evaluations, checkpoints and the time before the first update.
    pub left: Option<f64>,
}

/// The costs of the cells of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// In the order of the cells.
    pub cells: Vec<Cost>,
}

impl Costs {
    /// Estimates the costs of cells from their results so far. Images are counted if they exist; nothing is trained.
    #[must_use]
    pub fn of(cells: &[Cell], found: &[Found]) -> Self {
        let mut counts = BTreeMap::new();
        let mut costs: Vec<Cost> = cells
            .iter()
            .map(|cell| cost(&cell.plan, &mut counts))
            .collect();
        let rates: Vec<(&str, f64)> = cells
            .iter()
            .zip(found)
            .zip(&costs)
            .filter(|((_, found), _)| found.is_finished() && found.seconds > 0.0)
            .filter_map(|((cell, found), cost)| {
                Some((cell.name.as_str(), found.seconds / cost.macs?))
            })
            .collect();
        for ((cell, found), cost) in cells.iter().zip(found).zip(&mut costs) {
            // Other seeds of the same row are the best estimate.
            let own = rates.iter().filter(|(name, _)| *name == cell.name);
            let own = median(own.map(|(_, rate)| *rate).collect());
            let rate = own.or_else(|| median(rates.iter().map(|(_, rate)| *rate).collect()));
            let share = match found.state {
                State::Finished | State::Crashed(_) | State::Foreign(_) => 0.0,
                State::Begun(epochs) => 1.0 - f64::from(epochs) / f64::from(cost.epochs.max(1)),
                State::Missing => 1.0,
            };
            cost.left = match (share > 0.0, rate, cost.macs) {
                (false, ..) => Some(0.0),
                (true, Some(rate), Some(macs)) => Some(share * rate * macs),
                _ => None,
            };
        }
        Self { cells: costs }
    }

    /// Operations and remaining seconds of training of all cells: `None` if those of any cell are unknown.
    #[must_use]
    pub fn total(&self) -> (Option<f64>, Option<f64>) {
        let macs = self.cells.iter().map(|cost| cost.macs).sum();
        let left = self.cells.iter().map(|cost| cost.left).sum();
        (macs, left)
    }
}

/// The cost of a plan; `counts` remembers the sizes of data sets.
fn cost(plan: &Plan, counts: &mut BTreeMap<String, Option<[u64; 2]>>) -> Cost {
    let data = &plan.data;
    let key = format!(
        "{:?} {:?} {:?} {:?}",
        data.kind, data.path, data.subset, data.val_fraction
    );
    let count = |split| {
        open_part(data, split, None)
            .ok()
            .map(|part| part.samples.len() as u64)
    };
    let counted = counts
        .entry(key)
        .or_insert_with(|| Some([count(Split::Train)?, count(Split::Val)?]));
    let epochs = plan.epochs();
    let Some([train, val]) = *counted else {
        return Cost {
            epochs,
            ..Cost::default()
        };
    };
    let config = model_config(&plan.model, None);
    let evaluations = match plan.train.eval_every {
        0 => 1,
        every => epochs / every,
    };
    let images = |macs: f64| {
        let seen = f64::from(epochs) * train as f64 * views(plan);
        macs * (seen + f64::from(evaluations) * val as f64)
    };
    Cost {
        images: Some(train),
        epochs,
        macs: config
            .ok()
            .map(|config| images(config.summary().macs.total() as f64)),
        left: None,
    }
}

/// The cost of a training image, in forward passes of whole images.
fn views(plan: &Plan) -> f64 {
    match plan.task {
        TaskKind::Classify => UPDATE,
        TaskKind::Dino => {
            // Student and teacher see two global views; only the student sees the local ones.
            let size = plan.model.overrides.img_size.unwrap_or(224) as f64;
            let share = (plan.dino.local_size as f64 / size).powi(2);
            2.0 * (UPDATE + 1.0) + UPDATE * plan.dino.local_views as f64 * share
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
