//! Linear evaluation of a cell without labels: how good its teacher's features are.

use std::sync::atomic::Ordering;

use kvt_ops::Key;

use super::table::read_rows;
use super::{Cell, SweepError, Watch};
use crate::config::Plan;
use crate::data::{Batch, Split};
use crate::device;
use crate::error::TrainError;
use crate::probe::{
    Crops, Extractor, LinearEpoch, LinearProbe, LinearRecipe, collect, cut_images, linear, shuffled,
};
use crate::run::RunDir;
use crate::splits::Splits;
use crate::table::{Table, cells};
use crate::task::{DinoRole, build_model, load_checkpoint_backbone, model_config};
use kvt_data::fs::write_text;

/// The file of a run with its linear evaluation, epoch by epoch; it is written once all epochs are done.
pub const LINEAR: &str = "linear.csv";

const HEADER: &str = "epoch,lr,loss,top1,top5";

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
    Ok(read_rows(cell.dir().join(LINEAR), HEADER)?.map(ends))
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
    let row = |epoch: &LinearEpoch| {
        cells([
            &(epoch.epoch + 1),
            &epoch.lr,
            &epoch.loss,
            &epoch.top1,
            &epoch.top5,
        ])
    };
    let table = Table::new(HEADER.split(','), epochs.iter().map(row));
    write_text(&path, &table.csv())?;
    Ok(true)
}

fn evaluate(
    plan: &Plan,
    recipe: &LinearRecipe,
    crops: Crops,
    watch: &dyn Watch,
) -> Result<Vec<LinearEpoch>, TrainError> {
    let run = RunDir::open(&plan.run.dir)?;
    let classes = run.read_classes()?;
    let device = device::resolve(&plan.train.device)?.device.inner();
    let mut section = plan.model.clone();
    section.overrides.num_classes = Some(1);
    let config = model_config(&section, None)?;
    let model = build_model(plan, &config, &device)?;
    let (model, _) = load_checkpoint_backbone(&run, "last", DinoRole::Teacher, model)?;
    let extractor = Extractor::Backbone {
        model: Box::new(model),
        blocks: BLOCKS,
        avgpool: false,
    };
    let size = (config.img_size(), config.img_size());
    let mut plan = plan.clone();
    plan.train.batch_size = recipe.batch_size;
    let splits = Splits::open(&plan, size, Some(&classes), &mut |done, of| {
        watch.progress(done, of);
    })?;
    let rows = |split: Split| {
        let batches = splits.some_images(&plan, split, 0)?;
        collect(batches, &device, |images| extractor.features(images))
    };
    let val = rows(Split::Val)?;
    let key = Key::new(plan.seed).named("probe");
    let layer = LinearProbe::new(val.dim, classes.len(), &device, key);
    let tell = |epoch: &LinearEpoch| {
        watch.progress(epoch.epoch as usize + 1, recipe.epochs as usize);
        !watch.stop().load(Ordering::Relaxed)
    };
    match crops {
        Crops::None => {
            let bank = rows(Split::Train)?;
            let batches = |epoch: u32| {
                let batches = shuffled(&bank, &device, plan.seed, recipe.batch_size, epoch);
                Ok(batches.map(Ok))
            };
            linear(recipe, layer, (&val, &device), batches, tell)
        }
        Crops::Dino | Crops::Config => {
            let (plan, splits) = cut_images(&plan, &splits, size, crops)?;
            let batches = |epoch: u32| {
                let loader = splits.train_batches(&plan, |sample| sample.label, epoch, 0)?;
                Ok(loader.map(|batch| -> Result<_, TrainError> {
                    let Batch {
                        mut views, targets, ..
                    } = batch?;
                    let images = views.swap_remove(0).upload(&device);
                    Ok((extractor.features(images), targets))
                }))
            };
            linear(recipe, layer, (&val, &device), batches, tell)
        }
    }
}
