//! Linear evaluation of a cell without labels: how good its teacher's features are.

use std::sync::atomic::Ordering;

use super::table::read_rows;
use super::{Cell, SweepError, Watch};
use crate::probe::{Crops, Extractor, LinearEpoch, LinearRecipe, Subject};
use crate::trained::{Trained, TrainedError};
use kvt_data::Split;
use kvt_data::fs::write_text;
use kvt_train::config::Plan;
use kvt_train::run::LINEAR;
use kvt_train::splits::Splits;
use kvt_train::table::Table;

/// The blocks whose class tokens are the features, as in the original.
const BLOCKS: usize = 4;

/// Top-1 of the last and of the best epoch of a cell's linear evaluation; `None` if there is none.
///
/// # Errors
/// If the file cannot be read, or has other contents.
pub(super) fn read(cell: &Cell) -> Result<Option<[f64; 2]>, SweepError> {
    type Row = (u32, f64, f64, f64, f64);
    let ends = |rows: Vec<Row>| {
        let top1 = rows.iter().map(|row| row.3);
        let last = top1.clone().next_back().unwrap_or(f64::NAN);
        [last, top1.fold(0.0, f64::max)]
    };
    Ok(read_rows(&cell.dir().join(LINEAR), &LinearEpoch::HEADER.join(","))?.map(ends))
}

/// Judges the teacher of a cell, unless that was done, as `kvt probe --method linear --checkpoint last` does. `false` if a stop was
/// requested before the end.
pub(super) fn judge(
    cell: &Cell,
    plan: &Plan,
    crops: Crops,
    watch: &dyn Watch,
) -> Result<bool, SweepError> {
    let path = cell.dir().join(LINEAR);
    if path.exists() {
        return Ok(true);
    }
    let recipe = LinearRecipe::default();
    let epochs = evaluate(plan, &recipe, crops, watch)?;
    if epochs.len() < recipe.epochs as usize {
        return Ok(false);
    }
    let row = |epoch: &LinearEpoch| epoch.row().map(|cell| cell.to_string());
    let table = Table::new(LinearEpoch::HEADER, epochs.iter().map(row));
    write_text(&path, &table.csv())?;
    Ok(true)
}

fn evaluate(
    plan: &Plan,
    recipe: &LinearRecipe,
    crops: Crops,
    watch: &dyn Watch,
) -> Result<Vec<LinearEpoch>, TrainedError> {
    let mut trained = Trained::last_of(plan, &mut |text| watch.warn(text))?;
    trained.plan.train.batch_size = recipe.batch_size;
    let classes = trained.classes.as_deref();
    let mut generating = |done, of| watch.generating(done, of);
    let subject = Subject {
        splits: Splits::open(&trained.plan, trained.size, classes, &mut generating)?,
        plan: trained.plan,
        size: trained.size,
        device: trained.device.device.inner(),
        extractor: Extractor::Backbone {
            model: Box::new(trained.model),
            blocks: BLOCKS,
            avgpool: false,
        },
    };
    let rows = |split| {
        let mut progress = |done, of| watch.progress(done, of);
        subject.rows(split, 0, &mut progress, &mut |text| watch.warn(text))
    };
    let val = rows(Split::Val)?;
    let bank = || rows(Split::Train);
    let epochs = subject.linear(recipe, crops, &val, bank, |epoch| {
        watch.progress(epoch.epoch as usize + 1, recipe.epochs as usize);
        !watch.stop().load(Ordering::Relaxed)
    });
    Ok(epochs?)
}
